// Its operations, from arrival to end; messages have a file of their own.
#include <algorithm>
#include <exception>
#include <utility>

#include "cuda_shim/nccl/communicator.hpp"

namespace warpserve::gpu::nccl {

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

const std::byte* Communicator::staged(int rank, const Post& post) {
  if (post.has_contents == 0) return nullptr;
  const std::byte* const contents = peers_[index(rank)]->staged(post.staged_offset);
  if (contents == nullptr) {
    fail(Outcome::kRemoteError, describe(post.signature) + " lacks " + who_is(rank));
  }
  return contents;
}

// --- Collectives --------------------------------------------------------------------------------

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
    if (board_->rank(rank).has_left()) peers_[index(rank)]->ring();
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

const Post& Communicator::collective_post(int rank, std::uint64_t number) const {
  return board_->rank(rank).collectives[parity(number)];
}

}  // namespace warpserve::gpu::nccl
