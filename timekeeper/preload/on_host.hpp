// Deadlines for the waits that keep to host time.
#pragma once

#include <time.h>

#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/virtual_clock.hpp"

namespace warpserve {

// The host instant on `clock`, a real-time or monotonic one, that is as far away as `reading` is in
// virtual time.
inline timespec on_host(clockid_t clock, const timespec& reading) {
  const std::int64_t remaining =
      (virtual_clock().instant_of(family_of(clock), reading) - virtual_now()).ns();
  timespec now{};
  real().clock_gettime(clock, &now);
  const HostTime end =
      HostTime::from_ns(ns_of(now)).saturating_add(HostDuration::from_ns(remaining));
  return timespec_of(end < HostTime() ? 0 : end.ns());
}

}  // namespace warpserve
