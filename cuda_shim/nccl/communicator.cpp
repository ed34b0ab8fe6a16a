#include "cuda_shim/nccl/communicator.hpp"

#include <unistd.h>

#include <numeric>
#include <set>
#include <utility>

#include "cuda_shim/nccl/settings.hpp"
#include "cuda_shim/nccl/unique_id.hpp"

namespace warpserve::gpu::nccl {
namespace {

void say(const std::string& text) {
  const std::string line = "warpserve: NCCL: " + text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

Communicator::Communicator(const Machine& machine, SessionClock& clock, int ordinal, int device,
                           bool blocking)
    : machine_(machine),
      clock_(clock),
      ordinal_(ordinal),
      device_(device),
      blocking_(blocking),
      others_are_ghosts_(other_ranks_are_ghosts()) {}

// --- Making it ----------------------------------------------------------------------------------

void Communicator::join(std::shared_ptr<Board> board, int rank, int ranks) {
  // Before others can ring for it.
  Endpoint::get().add(weak_from_this());
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  ranks_ = ranks;
  sends_.resize(index(ranks));
  receives_.resize(index(ranks));
  board_ = std::move(board);
  board_->join(rank, ranks, device_);
  if (others_are_ghosts_) board_->add_ghosts(rank);
  if (!board_->complete()) return;
  find_peers();
  ring_others();
  become_ready();
}

void Communicator::find_peers() {
  if (!peers_.empty()) return;
  for (int rank = 0; rank < ranks_; ++rank) {
    peers_.push_back(Endpoint::get().peer(board_->rank(rank).process));
  }
}

void Communicator::become_ready() {
  if (state_ != Outcome::kInProgress) return;
  std::vector<int> devices;
  bool in_network_reduction = true;
  for (int rank = 0; rank < ranks_; ++rank) {
    const RankEntry& entry = board_->rank(rank);
    devices.push_back(entry.device);
    in_network_reduction = in_network_reduction && entry.allows_in_network_reduction != 0;
  }
  require(std::set(devices.begin(), devices.end()).size() == devices.size(), Outcome::kInvalidUsage,
          "two ranks of a communicator have the same GPU; each needs one of its own "
          "(torch.cuda.set_device)");
  timing_.emplace(machine_, std::move(devices), in_network_reduction);
  warn_of_ignored_settings();
  forget_board(board_->address());
  state_ = Outcome::kSuccess;
  changed_.notify_all();
}

void Communicator::await_ready() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != Outcome::kInProgress; });
  if (state_ != Outcome::kSuccess) throw NcclFailure(state_, message_);
}

void Communicator::fail_making(const NcclFailure& failure) {
  const std::lock_guard lock(mutex_);
  fail(failure.result(), failure.what());
}

int Communicator::rank() const {
  const std::lock_guard lock(mutex_);
  return rank_;
}

int Communicator::ranks() const {
  const std::lock_guard lock(mutex_);
  return ranks_;
}

Outcome Communicator::state() {
  Outcome state = Outcome::kSuccess;
  {
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  if (state == Outcome::kInProgress) clock_.note_idle_poll();
  return state;
}

const char* Communicator::message() const {
  const std::lock_guard lock(mutex_);
  return message_.c_str();
}

void Communicator::require_ready() const {
  const std::lock_guard lock(mutex_);
  if (state_ == Outcome::kInProgress) {
    throw NcclFailure(Outcome::kInvalidUsage,
                      "the communicator is still being made: ask "
                      "ncclCommGetAsyncError until it says ncclSuccess");
  }
  if (state_ != Outcome::kSuccess) throw NcclFailure(state_, message_);
}

// --- Failures -----------------------------------------------------------------------------------

bool Communicator::is_gone(int rank) const {
  return !peers_[index(rank)]->alive() || board_->rank(rank).has_left();
}

std::string Communicator::who_is(int rank) const {
  return "rank " + std::to_string(rank) + " (process " +
         std::to_string(peers_[index(rank)]->address().pid) + ")" +
         (peers_[index(rank)]->alive() ? ", which has left the communicator" : ", which has died");
}

void Communicator::look_for_the_gone() {
  const auto lacks = [this](const Call& call, int rank) {
    fail(Outcome::kRemoteError, describe(call.signature) + " lacks " + who_is(rank));
  };
  // Who is gone posts nothing more: what is looked at after that is its last word.
  for (int rank = 0; collective_ && rank < ranks_; ++rank) {
    const std::uint64_t number = collective_->number;
    if (is_gone(rank) && collective_post(rank, number).number != number) {
      return lacks(collective_->call, rank);
    }
  }
  for (const Arrival& message : messages_) {
    const int peer = message.call.peer;
    if (is_gone(peer) && !is_answered(message)) return lacks(message.call, peer);
  }
}

void Communicator::fail(Outcome result, const std::string& message) {
  if (state_ != Outcome::kSuccess && state_ != Outcome::kInProgress) return;
  state_ = result;
  message_ = message;
  const std::string who =
      ranks_ == 0 ? "" : "rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) + ": ";
  say(who + message);
  changed_.notify_all();
}

void Communicator::ring_others() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_) peers_[index(rank)]->ring();
  }
}

std::vector<int> Communicator::posted_ranks() const {
  if (!others_are_ghosts_) return {rank_};
  std::vector<int> all(index(ranks_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void Communicator::require_no_ghosts(const char* what) const {
  if (!others_are_ghosts_) return;
  throw NcclFailure(Outcome::kInvalidUsage, std::string("ghost ranks can't ") + what +
                                                ": run all ranks (WARPSERVE_GHOST_RANKS=0)");
}

// --- Its end ------------------------------------------------------------------------------------

std::vector<Communicator::Ended> Communicator::end_now() {
  const VirtualTime now = clock_.now();
  std::vector<Ended> ended;
  if (collective_) ended.push_back({collective_->end, now});
  for (const Arrival& message : messages_) ended.push_back({message.end, now});
  for (const CompletionSource& end : stranded_) ended.push_back({end, now});
  if (collective_) abandoned_.push_back(std::move(collective_->staged));
  for (Arrival& message : messages_) abandoned_.push_back(std::move(message.staged));
  collective_.reset();
  messages_.clear();
  stranded_.clear();
  return ended;
}

void Communicator::cancel() {
  std::vector<Ended> ended;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    ended = end_now();
  }
  for (const Ended& one : ended) one.end.resolve(one.instant);
}

void Communicator::leave() {
  const std::lock_guard lock(mutex_);
  if (board_ == nullptr) return;
  board_->roll().leave();
  board_->rank(rank_).state.store(static_cast<std::uint32_t>(RankState::kLeft));
  if (peers_.empty()) return;
  ring_others();
  if (!nobody_reads()) lingering_ = shared_from_this();
}

bool Communicator::nobody_reads() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_ || is_gone(rank)) continue;
    if (!abandoned_.empty() || board_->rank(rank).read.load() < collectives_) return false;
  }
  return true;
}

}  // namespace warpserve::gpu::nccl
