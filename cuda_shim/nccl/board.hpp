// What the ranks of a communicator share: a memory file, mapped by all of them.
//
// Every word has one writer, but for the counters, which are only added to. Who has written a post
// then adds to its counter; who sees the counter sees the post. Nothing is locked, so a rank that
// is killed at any instant leaves nothing that others would wait for forever unknowing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda_shim/nccl/endpoint.hpp"
#include "cuda_shim/nccl/roll.hpp"
#include "cuda_shim/nccl/types.hpp"
#include "timekeeper/shared/sync.hpp"

namespace warpserve::gpu::nccl {

// Where a board is: a descriptor of a process. It travels in an ncclUniqueId.
struct BoardAddress {
  std::uint64_t magic = 0;
  std::uint64_t token = 0;  // random: tells a board from another one
  std::uint64_t start = 0;  // of the process
  std::uint32_t pid = 0;
  std::int32_t fd = -1;
};

inline constexpr std::int32_t kMaxRanks = 1024;
// Messages of one group between two ranks, in one direction. A ring of twice as many posts: while
// the receiver is done with one group, the sender may not have noticed yet.
inline constexpr std::uint64_t kMessagesOfGroup = 128;
inline constexpr std::uint64_t kMessagePosts = 2 * kMessagesOfGroup;

// A rank's part in an operation.
struct Post {
  std::uint64_t number = 0;  // counts the operations, from 1
  std::int64_t ready_ns = 0;
  Signature signature;
  // What it contributes, in its process' staging, where that has contents.
  std::uint64_t staged_offset = 0;
  std::uint64_t has_contents = 0;
  std::uint64_t load_bytes = 0;  // of messages: Timing::message
};

// A rank's part in a split.
struct SplitPost {
  std::uint64_t number = 0;  // counts the splits, from 1
  std::int32_t color = 0;
  std::int32_t key = 0;
  BoardAddress board;  // for the new communicator, should this be its rank 0
};

enum class RankState : std::uint32_t { kAbsent = 0, kJoining = 1, kJoined = 2, kLeft = 3 };

// Posts alternate between two places: the one before last is not needed any more once all have come
// to the last (docs/virtual-gpu.md).
constexpr std::size_t parity(std::uint64_t number) {
  return static_cast<std::size_t>(number % 2);
}

struct RankEntry {
  SharedAtomic<std::uint32_t> state;
  std::int32_t device = -1;  // the machine's number
  std::uint32_t allows_in_network_reduction = 0;
  ProcessAddress process;
  std::array<Post, 2> collectives;
  SharedAtomic<std::uint64_t> read;  // of how many collectives it has read the contributions
  std::array<SplitPost, 2> splits;
  // Boards that this rank made for communicators without some of the ranks.
  SharedAtomic<std::uint64_t> shrinks;
  BoardAddress shrunk;

  bool has_left() const { return state.load() == static_cast<std::uint32_t>(RankState::kLeft); }
};

// Messages from one rank to another.
struct Channel {
  SharedAtomic<std::uint64_t> sent;
  SharedAtomic<std::uint64_t> awaited;
  SharedAtomic<std::uint64_t> received;
  std::array<Post, kMessagePosts> sends;
  std::array<Post, kMessagePosts> receives;
};

class Board {
 public:
  // A new one, of this process. It can be opened by its address as long as the process lives and
  // has not called `withdraw`.
  static std::shared_ptr<Board> create();
  // Throws NcclFailure(kRemoteError) where its process has ended, kInvalidArgument where the
  // address is none.
  static std::shared_ptr<Board> open(const BoardAddress& address);

  const BoardAddress& address() const { return address_; }

  // Takes part as that rank. Throws NcclFailure where the ranks do not agree on their number, or
  // the rank is taken.
  void join(std::int32_t rank, std::int32_t ranks, std::int32_t device);
  // All other ranks join, as ghosts of this one.
  void add_ghosts(std::int32_t rank);
  bool complete() const { return header().joined.load() == static_cast<std::uint32_t>(ranks_); }
  std::int32_t ranks() const { return ranks_; }

  // Of the rank that has joined.
  RollPlace& roll() { return roll_; }
  RankEntry& rank(std::int32_t rank) const;
  Channel& channel(std::int32_t from, std::int32_t to) const;
  // All that ranks have posted so far.
  SharedAtomic<std::uint64_t>& collectives() const { return header().collectives; }
  SharedAtomic<std::uint64_t>& splits() const { return header().splits; }

 private:
  struct Header {
    std::uint64_t magic = 0;
    std::uint64_t token = 0;
    SharedAtomic<std::uint32_t> ranks;  // 0 until the first has joined
    SharedAtomic<std::uint32_t> joined;
    SharedAtomic<std::uint32_t> roll;  // of open_roll; 0: none
    SharedAtomic<std::uint64_t> collectives;
    SharedAtomic<std::uint64_t> splits;
  };

  Board(FileDescriptor file, const BoardAddress& address);
  Header& header() const;
  RankEntry& take(std::int32_t rank, std::int32_t device) const;
  std::uint32_t roll_number();

  const FileDescriptor file_;
  const BoardAddress address_;
  Mapping header_;
  Mapping mapping_;  // of all of it, from `join` on
  std::int32_t ranks_ = 0;
  RollPlace roll_;
};

}  // namespace warpserve::gpu::nccl
