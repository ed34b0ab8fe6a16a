// When a piece of device work ends.
//
// The end of kernels and copies is known when they are enqueued. That of a collective is known when
// its last rank has arrived, that of a host function when it has returned: until then such an end
// is *pending*, and so is what follows from it. All that streams do with an end is to add a
// duration to it and to take the later of two, so a pending end with all that came after it is
//
//     max(source + offset, floor)
//
// for one source: three words that are updated in place. Only the later of two ends with different
// sources needs a new node.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "timekeeper/core/types.hpp"

namespace warpserve::gpu {

class SessionClock;
class PendingEnd;
class CompletionSource;

// A value; copies are independent. One object may be read by many threads, as an int may.
class Completion {
 public:
  // Complete since the start of the session.
  Completion() = default;
  static Completion at(VirtualTime instant) { return Completion(nullptr, {}, instant); }

  // The end of work of that duration (not negative) which begins at this one.
  [[nodiscard]] Completion after(VirtualDuration duration) const;
  [[nodiscard]] Completion not_before(VirtualTime instant) const;

  // Nothing while it is pending.
  std::optional<VirtualTime> instant() const;
  bool known() const { return instant().has_value(); }
  bool reached(VirtualTime now) const;

  // Blocks until it is known. Without a target: that it ever will be is up to the other threads.
  VirtualTime await_known() const;
  // Blocks until it is known, then jumps to it.
  void await_reached(SessionClock& clock) const;

  // Calls `action` with the instant once it is known: here and now, or in the thread that makes it
  // known, before anyone can see that it is. What is registered first runs first. `action` must not
  // throw and must not wait.
  void when_known(std::function<void(VirtualTime)> action) const;

  friend Completion latest(const Completion& a, const Completion& b);

 private:
  friend class CompletionSource;
  Completion(std::shared_ptr<PendingEnd> source, VirtualDuration offset, VirtualTime floor)
      : source_(std::move(source)), offset_(offset), floor_(floor) {}

  VirtualTime value_with(VirtualTime source) const {
    return std::max(source.saturating_add(offset_), floor_);
  }
  // The same without its source, where that is known by now.
  Completion simplified() const;

  std::shared_ptr<PendingEnd> source_;  // null: known to be `floor_`
  VirtualDuration offset_;
  VirtualTime floor_;
};

// The later of two.
Completion latest(const Completion& a, const Completion& b);

// Whoever learns when something ends. Copies stand for the same end. While no copy has resolved it,
// the end stays pending: whoever gives up a collective has to resolve it, too.
class CompletionSource {
 public:
  CompletionSource();

  Completion completion() const { return Completion(end_, {}, {}); }

  // True for the first call; the others change nothing. Actions that wait for it run in here.
  bool resolve(VirtualTime instant) const;

 private:
  std::shared_ptr<PendingEnd> end_;
};

}  // namespace warpserve::gpu
