// Virtual time and host time: integer nanoseconds, four types that never mix.
//
// An instant and a duration are different types, and so are the virtual and the host ones: adding
// a host duration to a virtual instant does not compile. Only `ns()` leaves the type system.
#pragma once

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>

namespace warpserve {

template <class Domain>
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration from_ns(std::int64_t ns) { return Duration(ns); }
  static constexpr Duration from_us(std::int64_t us) { return Duration(us * 1'000); }
  static constexpr Duration from_ms(std::int64_t ms) { return Duration(ms * 1'000'000); }

  // Nothing for NaN, infinities, negative values and what 64-bit nanoseconds cannot hold.
  static std::optional<Duration> from_seconds(double seconds) {
    const double ns = seconds * 1e9;
    if (!(ns >= 0.0) || ns >= 9.2233720368547758e18) return std::nullopt;
    return Duration(std::llround(ns));
  }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration other) const { return Duration(ns_ + other.ns_); }
  constexpr Duration operator-(Duration other) const { return Duration(ns_ - other.ns_); }
  constexpr Duration operator*(std::int64_t factor) const { return Duration(ns_ * factor); }

 private:
  constexpr explicit Duration(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

template <class Domain>
class Instant {
 public:
  constexpr Instant() = default;
  static constexpr Instant from_ns(std::int64_t ns) { return Instant(ns); }
  static constexpr Instant max() { return Instant(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration<Domain> d) const { return Instant(ns_ + d.ns()); }
  constexpr Instant operator-(Duration<Domain> d) const { return Instant(ns_ - d.ns()); }
  constexpr Duration<Domain> operator-(Instant other) const {
    return Duration<Domain>::from_ns(ns_ - other.ns_);
  }

  // `max()` where the sum does not fit: "never", not a wrapped instant in the past.
  constexpr Instant saturating_add(Duration<Domain> d) const {
    std::int64_t sum = 0;
    return __builtin_add_overflow(ns_, d.ns(), &sum) ? max() : Instant(sum);
  }

 private:
  constexpr explicit Instant(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

struct VirtualDomain;
struct HostDomain;

using VirtualDuration = Duration<VirtualDomain>;
using VirtualTime = Instant<VirtualDomain>;  // since the start of the session
using HostDuration = Duration<HostDomain>;
using HostTime = Instant<HostDomain>;  // the kernel's CLOCK_MONOTONIC

// How virtual time relates to host time.
enum class ClockMode : std::uint32_t {
  kExact = 1,  // stands still between jumps
  kLive = 2,   // host time passes, and jumps are added to it
  kSleep = 3,  // host time passes, no jumps: the baseline
};

// The condition under which the Timekeeper may advance.
enum class GuardKind : std::uint32_t {
  kSettle = 1,   // every thread of every member and descendant sleeps in the kernel
  kBarrier = 2,  // every registered actor has a pending target
};

}  // namespace warpserve
