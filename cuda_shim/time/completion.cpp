#include "cuda_shim/time/completion.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_shim/device/session_clock.hpp"

namespace warpserve::gpu {

using Action = std::function<void(VirtualTime)>;

// An end that one of the sources will make known, and what waits for that.
class PendingEnd {
 public:
  std::optional<VirtualTime> instant() const {
    if (!known_.load(std::memory_order_acquire)) return std::nullopt;
    return instant_;
  }

  VirtualTime await() {
    std::unique_lock lock(mutex_);
    became_known_.wait(lock, [this] { return known_.load(std::memory_order_relaxed); });
    return instant_;
  }

  // False where it is known: the caller runs the action.
  bool add(Action& action) {
    const std::lock_guard lock(mutex_);
    if (known_.load(std::memory_order_relaxed)) return false;
    actions_.push_back(std::move(action));
    return true;
  }

  bool claim() { return !claimed_.exchange(true); }

  // Runs the actions, those that are added meanwhile included, and then publishes the instant: who
  // sees that work has ended sees what it did.
  void publish(VirtualTime instant) {
    std::unique_lock lock(mutex_);
    while (!actions_.empty()) {
      const std::vector<Action> actions = std::exchange(actions_, {});
      lock.unlock();
      for (const Action& action : actions) action(instant);
      lock.lock();
    }
    instant_ = instant;
    known_.store(true, std::memory_order_release);
    became_known_.notify_all();
  }

 private:
  std::atomic<bool> claimed_{false};
  std::atomic<bool> known_{false};
  std::mutex mutex_;
  std::condition_variable became_known_;
  std::vector<Action> actions_;
  VirtualTime instant_;  // written before known_
};

namespace {

struct Resolution {
  std::shared_ptr<PendingEnd> end;
  VirtualTime instant;
};

// An action may resolve another end, whose actions resolve others: a thread works them off one
// after the other, so that the stack does not grow with the length of the chain.
void publish_in_order(Resolution first) {
  thread_local std::deque<Resolution>* running = nullptr;
  if (running != nullptr) {
    running->push_back(std::move(first));
    return;
  }
  std::deque<Resolution> queue;
  queue.push_back(std::move(first));
  running = &queue;
  while (!queue.empty()) {
    const Resolution next = std::move(queue.front());
    queue.pop_front();
    next.end->publish(next.instant);
  }
  running = nullptr;
}

// Two ends with different sources become one, that is known when both are.
class Join {
 public:
  void arrive(VirtualTime instant) {
    VirtualTime latest_instant;
    {
      const std::lock_guard lock(mutex_);
      latest_ = std::max(latest_, instant);
      if (--missing_ > 0) return;
      latest_instant = latest_;
    }
    source_.resolve(latest_instant);
  }
  Completion completion() const { return source_.completion(); }

 private:
  CompletionSource source_;
  std::mutex mutex_;
  int missing_ = 2;
  VirtualTime latest_;
};

}  // namespace

std::optional<VirtualTime> Completion::instant() const {
  if (source_ == nullptr) return floor_;
  const std::optional<VirtualTime> source = source_->instant();
  if (!source) return std::nullopt;
  return value_with(*source);
}

bool Completion::reached(VirtualTime now) const {
  const std::optional<VirtualTime> end = instant();
  return end && *end <= now;
}

Completion Completion::after(VirtualDuration duration) const {
  const VirtualTime floor = floor_.saturating_add(duration);
  if (source_ == nullptr) return at(floor);
  const VirtualTime offset = (VirtualTime() + offset_).saturating_add(duration);
  return Completion(source_, offset - VirtualTime(), floor);
}

Completion Completion::not_before(VirtualTime instant) const {
  const Completion end = simplified();
  return Completion(end.source_, end.offset_, std::max(end.floor_, instant));
}

Completion Completion::simplified() const {
  const std::optional<VirtualTime> end = instant();
  return end ? at(*end) : *this;
}

VirtualTime Completion::await_known() const {
  return source_ == nullptr ? floor_ : value_with(source_->await());
}

void Completion::await_reached(SessionClock& clock) const {
  clock.wait_until(await_known());
}

void Completion::when_known(Action action) const {
  if (source_ == nullptr) return action(floor_);
  // Without the source: it holds the action.
  Action with_source = [offset = offset_, floor = floor_,
                        action = std::move(action)](VirtualTime source) {
    action(Completion(nullptr, offset, floor).value_with(source));
  };
  if (!source_->add(with_source)) with_source(*source_->instant());
}

Completion latest(const Completion& a, const Completion& b) {
  const Completion first = a.simplified();
  const Completion second = b.simplified();
  if (first.source_ == nullptr) return second.not_before(first.floor_);
  if (second.source_ == nullptr) return first.not_before(second.floor_);
  if (first.source_ == second.source_) {
    return Completion(first.source_, std::max(first.offset_, second.offset_),
                      std::max(first.floor_, second.floor_));
  }
  const auto join = std::make_shared<Join>();
  first.when_known([join](VirtualTime instant) { join->arrive(instant); });
  second.when_known([join](VirtualTime instant) { join->arrive(instant); });
  return join->completion();
}

CompletionSource::CompletionSource() : end_(std::make_shared<PendingEnd>()) {}

bool CompletionSource::resolve(VirtualTime instant) const {
  if (!end_->claim()) return false;
  publish_in_order({end_, instant});
  return true;
}

}  // namespace warpserve::gpu
