// The clocks of a member, computed from the clock page.
//
// Conversions between libc's time structures and nanoseconds saturate: what 64 bits cannot hold is
// `VirtualTime::max()`, which means never.
#pragma once

#include <sys/time.h>
#include <time.h>

#include <cstdint>
#include <limits>

#include "timekeeper/core/types.hpp"
#include "timekeeper/shared/contract.hpp"

namespace warpserve {

inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;
inline constexpr std::int64_t kNsPerUs = 1'000;
inline constexpr std::int64_t kNsPerMs = 1'000'000;
inline constexpr VirtualTime kNever = VirtualTime::max();

inline bool is_valid(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < kNsPerSecond;
}
inline bool is_valid(const timeval& time) {
  return time.tv_sec >= 0 && time.tv_usec >= 0 && time.tv_usec < 1'000'000;
}

inline std::int64_t saturating_ns(std::int64_t seconds, std::int64_t ns) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(seconds, kNsPerSecond, &result) ||
      __builtin_add_overflow(result, ns, &result)) {
    return seconds < 0 ? std::numeric_limits<std::int64_t>::min()
                       : std::numeric_limits<std::int64_t>::max();
  }
  return result;
}
inline std::int64_t ns_of(const timespec& time) {
  return saturating_ns(time.tv_sec, time.tv_nsec);
}
inline std::int64_t ns_of(const timeval& time) {
  return saturating_ns(time.tv_sec, time.tv_usec * kNsPerUs);
}
inline VirtualDuration duration_of(const timespec& time) {
  return VirtualDuration::from_ns(ns_of(time));
}
inline VirtualDuration duration_of(const timeval& time) {
  return VirtualDuration::from_ns(ns_of(time));
}

// `ns` >= 0.
inline timespec timespec_of(std::int64_t ns) {
  return {ns / kNsPerSecond, ns % kNsPerSecond};
}
inline timeval timeval_of(std::int64_t ns) {
  return {ns / kNsPerSecond, ns % kNsPerSecond / kNsPerUs};
}

// Which of ours stands in for a clock of the host.
enum class ClockFamily { kRealtime, kMonotonic, kHost };

constexpr ClockFamily family_of(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
      return ClockFamily::kRealtime;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
      return ClockFamily::kMonotonic;
    default:
      return ClockFamily::kHost;  // CPU time, and what the kernel will refuse
  }
}

class VirtualClock {
 public:
  explicit VirtualClock(const ClockPage& page) : page_(&page) {}

  // `host_now` is called in modes in which host time passes: ns of the host's CLOCK_MONOTONIC.
  template <class HostNow>
  VirtualTime now(HostNow host_now) const {
    const std::int64_t value = page_->value_ns.load();
    return VirtualTime::from_ns(stands_still() ? value : value + host_now());
  }

  // The reading of one of our clocks (not kHost) at `time`.
  std::int64_t reading_ns(ClockFamily family, VirtualTime time) const {
    return offset_ns(family) + time.ns();
  }

  // When our clock reads `reading`. Not kHost.
  VirtualTime instant_of(ClockFamily family, const timespec& reading) const {
    std::int64_t ns = ns_of(reading);
    if (ns == std::numeric_limits<std::int64_t>::max()) return kNever;
    if (__builtin_sub_overflow(ns, offset_ns(family), &ns)) return VirtualTime();
    return VirtualTime::from_ns(ns);
  }

  // The host instant (CLOCK_MONOTONIC) at which host time alone has carried the clock to `target`.
  // Only where the clock does not stand still.
  HostTime host_instant_of(VirtualTime target) const {
    std::int64_t ns = 0;
    const bool never =
        target == kNever || __builtin_sub_overflow(target.ns(), page_->value_ns.load(), &ns);
    return never ? HostTime::max() : HostTime::from_ns(ns);
  }

  bool stands_still() const { return page_->mode == ClockMode::kExact; }
  bool ended() const { return page_->ended.load() != 0; }
  const ClockPage& page() const { return *page_; }

 private:
  std::int64_t offset_ns(ClockFamily family) const {
    return family == ClockFamily::kRealtime ? page_->realtime_epoch_ns : page_->monotonic_base_ns;
  }

  const ClockPage* page_;
};

}  // namespace warpserve
