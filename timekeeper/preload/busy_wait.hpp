// Busy-waits in exact mode. A thread that reads the clock, polls without a timeout or yields over
// and over without ever blocking waits for time to pass, which it never would. After so many idle
// indications in one instant it is charged virtual time, as if it had slept: 1 ns first, as many
// wait only until their deadline lies behind, then twice as much each time, up to a quantum.
#pragma once

#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/thread_state.hpp"

namespace warpserve {

// An empty poll tells more than a clock read: there is nothing to work on.
inline constexpr std::uint32_t kEmptyPollWeight = 100;

void charge_busy_wait();

// Only in a member whose clock stands still at `now` between jumps.
inline void note_idle(VirtualTime now, std::uint32_t weight = 1) {
  ThreadState& thread = this_thread;
  if (now.ns() != thread.seen_ns) {
    thread.seen_ns = now.ns();
    thread.idle_count = 0;
    return;
  }
  const std::uint32_t limit = member.spin_limits[thread.in_busy_wait ? 1 : 0];
  thread.idle_count += weight;
  if (__builtin_expect(thread.idle_count > limit && limit != 0, 0)) charge_busy_wait();
}

// For indications other than clock reads.
inline void note_idle(std::uint32_t weight = 1) {
  if (member.spin_limits[0] != 0) note_idle(virtual_now(), weight);
}

}  // namespace warpserve
