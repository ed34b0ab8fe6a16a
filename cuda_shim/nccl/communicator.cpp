#include "cuda_shim/nccl/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>
#include <utility>

#include "cuda_shim/nccl/settings.hpp"
#include "cuda_shim/nccl/unique_id.hpp"

namespace warpserve::gpu::nccl {
namespace {

std::uint64_t parity(std::uint64_t number) {
  return number % 2;
}

std::size_t place_of(std::uint64_t message) {
  return static_cast<std::size_t>(message % kMessagePosts);
}

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

void say(const std::string& text) {
  const std::string line = "warpserve: NCCL: " + text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

bool is_leaver(const RankEntry& entry) {
  return entry.state.load() == static_cast<std::uint32_t>(RankState::kLeft);
}

int first_left(int ranks, const std::vector<int>& excluded) {
  int rank = 0;
  while (rank < ranks && std::ranges::find(excluded, rank) != excluded.end()) ++rank;
  return rank;
}

}  // namespace

Staged::Staged(std::uint64_t bytes)
    : offset_(bytes == 0 ? 0 : Endpoint::get().staging().take(bytes)), bytes_(bytes) {}

Staged::~Staged() {
  if (bytes_ != 0) Endpoint::get().staging().give(offset_, bytes_);
}

Staged::Staged(Staged&& other) noexcept
    : offset_(other.offset_), bytes_(std::exchange(other.bytes_, 0)) {}

Staged& Staged::operator=(Staged&& other) noexcept {
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::byte* Staged::data() const {
  return Endpoint::get().staging().at(offset_);
}

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

// --- Operations ---------------------------------------------------------------------------------

void Communicator::start(const std::vector<Call>& calls, const Completion& ready,
                         const CompletionSource& end) {
  Completion begin;
  {
    const std::lock_guard lock(mutex_);
    begin = latest(ready, last_end_);
    last_end_ = end.completion();
  }
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  for (const Call& call : calls) {
    if (call.peer == rank_) continue;
    if (call.signature.operation == Operation::kSend) sent_bytes += call.signature.bytes();
    if (call.signature.operation == Operation::kRecv) received_bytes += call.signature.bytes();
  }
  Completion last_collective = begin;
  Completion last = begin;
  for (const Call& call : calls) {
    const Operation operation = call.signature.operation;
    const std::uint64_t load_bytes = operation == Operation::kSend ? sent_bytes : received_bytes;
    const CompletionSource own_end;
    const bool is_message = is_point_to_point(operation);
    const Completion& after = is_message ? begin : last_collective;
    after.when_known([self = shared_from_this(), call, load_bytes, own_end](VirtualTime instant) {
      self->arrive(call, load_bytes, instant, own_end);
    });
    last = latest(last, own_end.completion());
    if (!is_message) last_collective = own_end.completion();
  }
  last.when_known([end](VirtualTime instant) { end.resolve(instant); });
}

Completion Communicator::last_end() const {
  const std::lock_guard lock(mutex_);
  return last_end_;
}

void Communicator::await_idle() {
  struct End {
    bool known = false;
    VirtualTime instant;
  };
  const auto end = std::make_shared<End>();
  last_end().when_known([self = shared_from_this(), end](VirtualTime instant) {
    const std::lock_guard lock(self->mutex_);
    *end = {true, instant};
    self->changed_.notify_all();
  });
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end->known || cancelled_ || state_ != Outcome::kSuccess; });
  }
  if (end->known) clock_.wait_until(end->instant);
}

void Communicator::arrive(const Call& call, std::uint64_t load_bytes, VirtualTime instant,
                          const CompletionSource& end) {
  switch (post(call, load_bytes, instant, end)) {
    case Posted::kYes:
      return on_ring();
    case Posted::kCancelled:
      end.resolve(instant);
      return;
    case Posted::kFailed:
      return;
  }
}

Communicator::Posted Communicator::post(const Call& call, std::uint64_t load_bytes,
                                        VirtualTime instant, const CompletionSource& end) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return Posted::kCancelled;
  try {
    if (state_ == Outcome::kSuccess) {
      Arrival arrival{.call = call, .end = end};
      if (is_point_to_point(call.signature.operation)) {
        post_message(std::move(arrival), load_bytes, instant);
      } else {
        post_collective(std::move(arrival), instant);
      }
      return Posted::kYes;
    }
  } catch (const std::exception& error) {
    fail(Outcome::kSystemError, describe(call.signature) + ": " + error.what());
  }
  stranded_.push_back(end);
  return Posted::kFailed;
}

Post Communicator::post_of(Arrival& arrival, std::uint64_t load_bytes, VirtualTime instant) {
  const Signature& signature = arrival.call.signature;
  Post post{.number = arrival.number,
            .ready_ns = instant.ns(),
            .signature = signature,
            .load_bytes = load_bytes};
  // Numbers of the program's own reductions differ from rank to rank.
  post.signature.reduction = std::min(post.signature.reduction, kReductions);
  const std::uint64_t bytes = contributed_bytes(signature, rank_, ranks_);
  if (bytes == 0) return post;
  Staged staged(bytes);
  if (!contribute(arrival.call, rank_, ranks_, staged.data())) return post;
  post.staged_offset = staged.offset();
  post.has_contents = 1;
  arrival.staged = std::move(staged);
  return post;
}

void Communicator::post_collective(Arrival arrival, VirtualTime instant) {
  arrival.number = ++collectives_;
  const Post post = post_of(arrival, 0, instant);
  const std::vector<int> posted = posted_ranks();
  for (const int rank : posted) board_->rank(rank).collectives[parity(arrival.number)] = post;
  board_->roll().come_to(1 + arrival.number, name_of(arrival.call.signature.operation));
  const auto all = arrival.number * static_cast<std::uint64_t>(ranks_);
  collective_.emplace(std::move(arrival));
  if (board_->collectives().fetch_add(posted.size()) + posted.size() == all) ring_others();
}

void Communicator::post_message(Arrival arrival, std::uint64_t load_bytes, VirtualTime instant) {
  const int peer = arrival.call.peer;
  if (peer != rank_) require_no_ghosts("send and receive");
  if (arrival.call.signature.operation == Operation::kSend) {
    Channel& channel = board_->channel(rank_, peer);
    arrival.number = ++sends_[index(peer)];
    channel.sends[place_of(arrival.number)] = post_of(arrival, load_bytes, instant);
    channel.sent.store(arrival.number);
    peers_[index(peer)]->ring();
  } else {
    Channel& channel = board_->channel(peer, rank_);
    arrival.number = ++receives_[index(peer)];
    channel.receives[place_of(arrival.number)] = post_of(arrival, load_bytes, instant);
    channel.awaited.store(arrival.number);
  }
  board_->roll().wait_for(peer, name_of(arrival.call.signature.operation));
  messages_.push_back(std::move(arrival));
}

void Communicator::on_ring() {
  std::vector<Ended> ended;
  std::shared_ptr<Communicator> last_reference;
  {
    const std::lock_guard lock(mutex_);
    try {
      if (board_ != nullptr && board_->complete()) {
        find_peers();
        become_ready();
      }
      if (state_ == Outcome::kSuccess) {
        end_collective(ended);
        end_messages(ended);
        look_for_the_gone();
      }
    } catch (const NcclFailure& failure) {
      fail(failure.result(), failure.what());
    } catch (const std::exception& error) {
      fail(Outcome::kSystemError, error.what());
    }
    changed_.notify_all();
    if (lingering_ != nullptr && nobody_reads()) last_reference = std::move(lingering_);
  }
  for (const Ended& one : ended) one.end.resolve(one.instant);
}

void Communicator::end_collective(std::vector<Ended>& ended) {
  if (!collective_) return;
  const std::uint64_t number = collective_->number;
  if (board_->collectives().load() < number * static_cast<std::uint64_t>(ranks_)) return;
  if (!all_agree(*collective_)) return;
  VirtualTime start;
  std::vector<const std::byte*> contributions;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Post& post = collective_post(rank, number);
    start = std::max(start, VirtualTime::from_ns(post.ready_ns));
    contributions.push_back(staged(rank, post));
  }
  if (state_ != Outcome::kSuccess) return;
  receive(collective_->call, rank_, contributions);
  ended.push_back({collective_->end, start + duration_of(collective_->call)});
  // All have come to this one, so all are done with the one before.
  previous_ = std::move(collective_->staged);
  collective_.reset();
  board_->rank(rank_).read.store(number);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (is_leaver(board_->rank(rank))) peers_[index(rank)]->ring();
  }
}

bool Communicator::all_agree(const Arrival& arrival) {
  const Post& first = collective_post(0, arrival.number);
  for (int rank = 1; rank < ranks_; ++rank) {
    const Post& post = collective_post(rank, arrival.number);
    if (post.signature == first.signature) continue;
    fail(Outcome::kInvalidUsage, "the ranks do not agree on operation " +
                                     std::to_string(arrival.number) +
                                     " of the communicator: rank 0 "
                                     "calls " +
                                     describe(first.signature) + ", rank " + std::to_string(rank) +
                                     " " + describe(post.signature));
    return false;
  }
  return true;
}

VirtualDuration Communicator::duration_of(const Call& call) const {
  const bool moves_nothing = ranks_ == 1 && call.send == call.recv;
  return moves_nothing ? VirtualDuration() : timing_->collective(call.signature);
}

void Communicator::end_messages(std::vector<Ended>& ended) {
  for (auto message = messages_.begin(); message != messages_.end();) {
    if (auto end = this->ended(*message)) {
      ended.push_back(std::move(*end));
      message = messages_.erase(message);
      if (messages_.empty()) board_->roll().wait_for_nobody();
    } else if (state_ != Outcome::kSuccess) {
      return;
    } else {
      ++message;
    }
  }
}

std::optional<Communicator::Ended> Communicator::ended(Arrival& message) {
  const bool sends = message.call.signature.operation == Operation::kSend;
  const int peer = message.call.peer;
  const int from = sends ? rank_ : peer;
  const int to = sends ? peer : rank_;
  Channel& channel = board_->channel(from, to);
  if (channel.sent.load() < message.number || channel.awaited.load() < message.number) {
    return std::nullopt;
  }
  const Post& sent = channel.sends[place_of(message.number)];
  const Post& awaited = channel.receives[place_of(message.number)];
  if (sent.signature.bytes() != awaited.signature.bytes()) {
    fail(Outcome::kInvalidUsage,
         "the ranks do not agree on message " + std::to_string(message.number) + " from rank " +
             std::to_string(from) + " to rank " + std::to_string(to) + ": " +
             describe(sent.signature) + ", and " + describe(awaited.signature));
    return std::nullopt;
  }
  if (sends) {
    // What is staged has to stay until it is received.
    if (channel.received.load() < message.number) return std::nullopt;
  } else {
    if (const std::byte* const contents = staged(peer, sent)) {
      write(message.call.recv, contents, sent.signature.bytes());
    }
    if (state_ != Outcome::kSuccess) return std::nullopt;
    channel.received.store(message.number);
    peers_[index(peer)]->ring();
  }
  const auto start = VirtualTime::from_ns(std::max(sent.ready_ns, awaited.ready_ns));
  const std::uint64_t load_bytes = std::max(sent.load_bytes, awaited.load_bytes);
  return Ended{message.end, start + timing_->message(from, to, load_bytes)};
}

const std::byte* Communicator::staged(int rank, const Post& post) {
  if (post.has_contents == 0) return nullptr;
  const std::byte* const contents = peers_[index(rank)]->staged(post.staged_offset);
  if (contents == nullptr) {
    fail(Outcome::kRemoteError, describe(post.signature) + " lacks " + who_is(rank));
  }
  return contents;
}

const Post& Communicator::collective_post(int rank, std::uint64_t number) const {
  return board_->rank(rank).collectives[parity(number)];
}

// --- Failures -----------------------------------------------------------------------------------

bool Communicator::is_gone(int rank) const {
  return !peers_[index(rank)]->alive() || is_leaver(board_->rank(rank));
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

bool Communicator::is_answered(const Arrival& message) const {
  const int peer = message.call.peer;
  return message.call.signature.operation == Operation::kSend
             ? board_->channel(rank_, peer).received.load() >= message.number
             : board_->channel(peer, rank_).sent.load() >= message.number;
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

// --- Reductions ---------------------------------------------------------------------------------

std::uint32_t Communicator::add_reduction(DataType type, Factor factor) {
  const std::lock_guard lock(mutex_);
  reductions_[next_reduction_] = {type, factor};
  return next_reduction_++;
}

void Communicator::remove_reduction(std::uint32_t reduction) {
  const std::lock_guard lock(mutex_);
  require(reductions_.erase(reduction) == 1, Outcome::kInvalidArgument,
          "the communicator has no such reduction");
}

Factor Communicator::factor(std::uint32_t reduction, DataType type) const {
  const std::lock_guard lock(mutex_);
  const auto found = reductions_.find(reduction);
  require(found != reductions_.end(), Outcome::kInvalidArgument,
          "the communicator has no such reduction");
  require(found->second.first == type, Outcome::kInvalidArgument,
          "the reduction was made for another type");
  return found->second.second;
}

// --- Other communicators of its ranks -----------------------------------------------------------

std::uint64_t Communicator::post_split(int color, int key) {
  const std::lock_guard lock(mutex_);
  require(split_board_ == nullptr, Outcome::kInvalidUsage,
          "a communicator can't be split twice in one group");
  split_board_ = Board::create();
  const std::uint64_t number = ++splits_;
  const std::vector<int> posted = posted_ranks();
  for (const int rank : posted) {
    board_->rank(rank).splits[parity(number)] = {.number = number,
                                                 .color = color,
                                                 .key = key - rank_ + rank,
                                                 .board = split_board_->address()};
  }
  const auto all = number * static_cast<std::uint64_t>(ranks_);
  if (board_->splits().fetch_add(posted.size()) + posted.size() == all) ring_others();
  return number;
}

Communicator::Place Communicator::await_split(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  const auto missing = [&]() -> std::optional<int> {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (board_->rank(rank).splits[parity(number)].number != number) return rank;
    }
    return std::nullopt;
  };
  changed_.wait(lock, [&] {
    const auto rank = missing();
    return !rank || is_gone(*rank);
  });
  const std::shared_ptr<Board> own = std::exchange(split_board_, nullptr);
  if (const auto rank = missing()) {
    throw NcclFailure(Outcome::kRemoteError, "the split lacks " + who_is(*rank));
  }
  const auto post_of_rank = [&](int rank) -> const SplitPost& {
    return board_->rank(rank).splits[parity(number)];
  };
  if (post_of_rank(rank_).color == kNoColor) return {};
  std::vector<int> members;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (post_of_rank(rank).color == post_of_rank(rank_).color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {}, [&](int rank) { return post_of_rank(rank).key; });
  const auto place = std::ranges::find(members, rank_) - members.begin();
  return {.board = place == 0 ? own : Board::open(post_of_rank(members.front()).board),
          .rank = static_cast<int>(place),
          .ranks = static_cast<int>(members.size())};
}

std::uint64_t Communicator::post_shrink(const std::vector<int>& excluded) {
  const std::lock_guard lock(mutex_);
  require_no_ghosts("shrink a communicator");
  const std::uint64_t number = ++shrinks_;
  if (first_left(ranks_, excluded) != rank_) return number;
  shrink_board_ = Board::create();
  RankEntry& own = board_->rank(rank_);
  own.shrunk = shrink_board_->address();
  own.shrinks.store(number);
  ring_others();
  return number;
}

Communicator::Place Communicator::await_shrink(std::uint64_t number,
                                               const std::vector<int>& excluded) {
  std::unique_lock lock(mutex_);
  const int leader = first_left(ranks_, excluded);
  const RankEntry& entry = board_->rank(leader);
  changed_.wait(lock, [&] { return entry.shrinks.load() >= number || is_gone(leader); });
  if (entry.shrinks.load() < number) {
    throw NcclFailure(Outcome::kRemoteError, "the smaller communicator lacks " + who_is(leader));
  }
  const auto before = [&](int rank) { return rank < rank_; };
  const auto gone_before = std::ranges::count_if(excluded, before);
  const std::shared_ptr<Board> own = std::exchange(shrink_board_, nullptr);
  return {.board = leader == rank_ ? own : Board::open(entry.shrunk),
          .rank = rank_ - static_cast<int>(gone_before),
          .ranks = ranks_ - static_cast<int>(excluded.size())};
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
