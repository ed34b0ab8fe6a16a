#include "cuda_shim/nccl/board.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <string>
#include <utility>

#include "cuda_shim/memory/process.hpp"
#include "cuda_shim/nccl/settings.hpp"

namespace warpserve::gpu::nccl {
namespace {

constexpr std::uint64_t kMagic = 0x314c43434e505257;  // "WRPNCCL1"
constexpr std::uint64_t kHeaderBytes = 4096;

std::uint64_t entries_bytes(std::int32_t ranks) {
  return round_up(static_cast<std::uint64_t>(ranks) * sizeof(RankEntry), kHeaderBytes);
}

std::uint64_t board_bytes(std::int32_t ranks) {
  const auto pairs = static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(ranks);
  return kHeaderBytes + entries_bytes(ranks) + pairs * sizeof(Channel);
}

std::uint64_t random_token() {
  std::uint64_t token = 0;
  if (getrandom(&token, sizeof(token), 0) != sizeof(token)) {
    throw NcclFailure(Outcome::kSystemError, "the host gives no random bytes for an ncclUniqueId");
  }
  return token;
}

}  // namespace

std::shared_ptr<Board> Board::create() {
  FileDescriptor file = make_memory_file("warpserve-nccl", kHeaderBytes);
  const auto pid = static_cast<std::uint32_t>(getpid());
  const BoardAddress address = {.magic = kMagic,
                                .token = random_token(),
                                .start = process_start(pid).value_or(0),
                                .pid = pid,
                                .fd = file.get()};
  std::shared_ptr<Board> board(new Board(std::move(file), address));
  board->header().magic = kMagic;
  board->header().token = address.token;
  return board;
}

std::shared_ptr<Board> Board::open(const BoardAddress& address) {
  require(address.magic == kMagic, Outcome::kInvalidArgument,
          "an ncclUniqueId that ncclGetUniqueId of this session did not make");
  FileDescriptor file = open_descriptor(address.pid, address.start, address.fd, O_RDWR);
  struct stat found{};
  const bool is_board = file.valid() && fstat(file.get(), &found) == 0 &&
                        static_cast<std::uint64_t>(found.st_size) >= kHeaderBytes;
  std::shared_ptr<Board> board;
  if (is_board) board.reset(new Board(std::move(file), address));
  if (board == nullptr || board->header().magic != kMagic ||
      board->header().token != address.token) {
    throw NcclFailure(Outcome::kRemoteError,
                      "process " + std::to_string(address.pid) +
                          ", which made the ncclUniqueId, has ended, or has made "
                          "the communicator already");
  }
  return board;
}

Board::Board(FileDescriptor file, const BoardAddress& address)
    : file_(std::move(file)), address_(address), header_(file_.get(), kHeaderBytes, true) {}

Board::Header& Board::header() const {
  return *std::launder(reinterpret_cast<Header*>(header_.data()));
}

RankEntry& Board::rank(std::int32_t rank) const {
  std::byte* const entries = mapping_.data() + kHeaderBytes;
  return std::launder(reinterpret_cast<RankEntry*>(entries))[rank];
}

Channel& Board::channel(std::int32_t from, std::int32_t to) const {
  std::byte* const channels = mapping_.data() + kHeaderBytes + entries_bytes(ranks_);
  return std::launder(reinterpret_cast<Channel*>(channels))[from * ranks_ + to];
}

void Board::join(std::int32_t rank, std::int32_t ranks, std::int32_t device) {
  header().ranks.compare_exchange(0, static_cast<std::uint32_t>(ranks));
  require(header().ranks.load() == static_cast<std::uint32_t>(ranks), Outcome::kInvalidArgument,
          "the ranks do not agree on their number: all have to name the same");
  const std::uint64_t bytes = board_bytes(ranks);
  // All set the same length, so it does not matter who comes first.
  require(ftruncate(file_.get(), static_cast<off_t>(bytes)) == 0, Outcome::kSystemError,
          "memory that ranks share can't be enlarged");
  mapping_ = Mapping(file_.get(), bytes, true);
  ranks_ = ranks;
  RankEntry& own = take(rank, device);
  roll_ = RollPlace(roll_number(), rank);
  own.state.store(static_cast<std::uint32_t>(RankState::kJoined));
  header().joined.fetch_add(1);
}

void Board::add_ghosts(std::int32_t rank) {
  for (std::int32_t ghost = 0; ghost < ranks_; ++ghost) {
    if (ghost == rank) continue;
    RankEntry& entry = take(ghost, this->rank(rank).device - rank + ghost);
    entry.read.store(~std::uint64_t{0});  // it reads nothing that would have to stay
    entry.state.store(static_cast<std::uint32_t>(RankState::kJoined));
    header().joined.fetch_add(1);
  }
}

RankEntry& Board::take(std::int32_t rank, std::int32_t device) const {
  RankEntry& entry = this->rank(rank);
  require(entry.state.compare_exchange(static_cast<std::uint32_t>(RankState::kAbsent),
                                       static_cast<std::uint32_t>(RankState::kJoining)),
          Outcome::kInvalidUsage, "two ranks of a communicator have the same number");
  entry.device = device;
  entry.allows_in_network_reduction = allows_in_network_reduction() ? 1 : 0;
  entry.process = Endpoint::get().address();
  return entry;
}

// Opened by the first to join.
std::uint32_t Board::roll_number() {
  if (header().roll.load() == 0) {
    const std::uint32_t opened = open_roll(ranks_);
    if (!header().roll.compare_exchange(0, opened)) close_roll(opened);
  }
  return header().roll.load();
}

}  // namespace warpserve::gpu::nccl
