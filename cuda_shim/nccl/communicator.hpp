// A rank of a communicator.
//
// Operations of a communicator follow one another, whatever streams they are in, as in NCCL. An
// operation *arrives* when its stream and the communicator have got to it; the rank then posts when
// that is and what it contributes. When all have posted, each finds the same start, the latest
// arrival, and the same end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda_shim/device/session_clock.hpp"
#include "cuda_shim/nccl/board.hpp"
#include "cuda_shim/nccl/contents.hpp"
#include "cuda_shim/nccl/endpoint.hpp"
#include "cuda_shim/nccl/reductions.hpp"
#include "cuda_shim/nccl/staged.hpp"
#include "cuda_shim/nccl/timing.hpp"
#include "cuda_shim/time/completion.hpp"

namespace warpserve::gpu::nccl {

// Any thread may call anything. What waits for others throws NcclFailure where they can't come any
// more.
class Communicator final : public Listener, public std::enable_shared_from_this<Communicator> {
 public:
  // `ordinal` is the process' number of the device, `device` the machine's.
  Communicator(const Machine& machine, SessionClock& clock, int ordinal, int device, bool blocking);

  // --- Making it. Until all ranks have joined, `state` is kInProgress.
  void join(std::shared_ptr<Board> board, int rank, int ranks);
  void await_ready();
  void fail_making(const NcclFailure& failure);

  int ordinal() const { return ordinal_; }
  // 0 of 0 before `join`.
  int rank() const;
  int ranks() const;
  bool blocking() const { return blocking_; }
  Outcome state();
  // Of the first failure; "" where there was none. Valid as long as this.
  const char* message() const;
  // Throws NcclFailure where it is not ready.
  void require_ready() const;

  // --- Operations. Of one group: messages at once, collectives in order.
  void start(const std::vector<Call>& calls, const Completion& ready, const CompletionSource& end);
  // Blocks until all that was started is done, or the communicator has failed.
  void await_idle();

  Reductions& reductions() { return reductions_; }

  // --- Other communicators of its ranks.
  struct Place {
    std::shared_ptr<Board> board;
    int rank = 0;
    int ranks = 0;
  };
  static constexpr int kNoColor = -1;
  // Two steps, so that one thread can do the first for several ranks. The second says where this
  // rank is in the new one: nowhere (no board) where it has no color.
  std::uint64_t post_split(int color, int key);
  Place await_split(std::uint64_t number);
  std::uint64_t post_shrink(const std::vector<int>& excluded);
  Place await_shrink(std::uint64_t number, const std::vector<int>& excluded);

  // --- Its end.
  // Operations that have not ended end now.
  void cancel();
  // Others must not wait for this rank any more.
  void leave();

  void on_ring() override;

 private:
  // An operation that this rank has posted.
  struct Arrival {
    std::uint64_t number = 0;
    Call call;
    CompletionSource end;
    Staged staged;
  };
  struct Ended {
    CompletionSource end;
    VirtualTime instant;
  };

  enum class Posted { kYes, kCancelled, kFailed };

  void arrive(const Call& call, std::uint64_t load_bytes, VirtualTime instant,
              const CompletionSource& end);
  Posted post(const Call& call, std::uint64_t load_bytes, VirtualTime instant,
              const CompletionSource& end);

  Completion last_end() const;

  // With mutex_ held:
  void find_peers();
  void become_ready();
  Post post_of(Arrival& arrival, std::uint64_t load_bytes, VirtualTime instant);
  void post_collective(Arrival arrival, VirtualTime instant);
  void post_message(Arrival arrival, std::uint64_t load_bytes, VirtualTime instant);
  void end_collective(std::vector<Ended>& ended);
  void end_messages(std::vector<Ended>& ended);
  std::optional<Ended> ended(Arrival& message);
  void look_for_the_gone();
  // Whether its other end has done its part.
  bool is_answered(const Arrival& message) const;
  bool all_agree(const Arrival& arrival);
  VirtualDuration duration_of(const Call& call) const;
  // What the rank has contributed; null where that has no contents.
  const std::byte* staged(int rank, const Post& post);
  const Post& collective_post(int rank, std::uint64_t number) const;
  bool is_gone(int rank) const;
  std::string who_is(int rank) const;
  void fail(Outcome result, const std::string& message);
  void ring_others() const;
  // For which ranks this one posts: its own, and those of its ghosts.
  std::vector<int> posted_ranks() const;
  void require_no_ghosts(const char* what) const;
  std::vector<Ended> end_now();
  // Whether all others are done with what this rank has staged.
  bool nobody_reads() const;

  const Machine& machine_;
  SessionClock& clock_;
  const int ordinal_;
  const int device_;
  const bool blocking_;
  const bool others_are_ghosts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Written by `join` only.
  int rank_ = 0;
  int ranks_ = 0;
  std::shared_ptr<Board> board_;
  Outcome state_ = Outcome::kInProgress;
  std::string message_;
  bool cancelled_ = false;
  std::vector<std::shared_ptr<Peer>> peers_;  // by rank
  std::optional<Timing> timing_;

  Completion last_end_;
  std::uint64_t collectives_ = 0;  // that this rank has posted
  std::optional<Arrival> collective_;
  Staged previous_;                   // of the collective before
  std::vector<std::uint64_t> sends_;  // that this rank has posted, by peer
  std::vector<std::uint64_t> receives_;
  std::list<Arrival> messages_;
  std::vector<CompletionSource> stranded_;   // came after a failure
  std::vector<Staged> abandoned_;            // of operations that were cancelled
  std::shared_ptr<Communicator> lingering_;  // left, while others read what it has staged

  std::uint64_t splits_ = 0;
  std::shared_ptr<Board> split_board_;
  std::uint64_t shrinks_ = 0;
  std::shared_ptr<Board> shrink_board_;
  Reductions reductions_;
};

}  // namespace warpserve::gpu::nccl
