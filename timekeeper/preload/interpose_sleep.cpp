// Sleeps: jumps that a signal may interrupt.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "timekeeper/preload/busy_wait.hpp"
#include "timekeeper/preload/cancellation.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace {

// Returns 0 or EINTR.
int sleep_until(VirtualTime target, const char* label) {
  if (target <= virtual_now()) note_idle();
  const CancellationPoint cancellable;
  return wait_until(target, label) == WaitEnd::kReached ? 0 : EINTR;
}

int sleep_for(const timespec& duration, timespec* remaining, const char* label) {
  if (!is_valid(duration)) return EINVAL;
  const VirtualTime target = virtual_now().saturating_add(duration_of(duration));
  const int result = sleep_until(target, label);
  if (result == EINTR && remaining != nullptr) {
    *remaining = timespec_of(std::max<std::int64_t>((target - virtual_now()).ns(), 0));
  }
  return result;
}

int with_errno(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

WARPSERVE_EXPORT int nanosleep(const timespec* duration, timespec* remaining) {
  if (!is_member()) return real().nanosleep(duration, remaining);
  return with_errno(sleep_for(*duration, remaining, "nanosleep"));
}

WARPSERVE_EXPORT int __nanosleep(const timespec* duration, timespec* remaining) {
  return nanosleep(duration, remaining);
}

WARPSERVE_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* time,
                                     timespec* remaining) {
  const ClockFamily family = family_of(clock);
  if (!is_member() || family == ClockFamily::kHost) {
    return real().clock_nanosleep(clock, flags, time, remaining);
  }
  if ((flags & TIMER_ABSTIME) == 0) return sleep_for(*time, remaining, "clock_nanosleep");
  if (!is_valid(*time)) return EINVAL;
  return sleep_until(virtual_clock().instant_of(family, *time), "clock_nanosleep");
}

WARPSERVE_EXPORT unsigned int sleep(unsigned int seconds) {
  timespec duration = {static_cast<time_t>(seconds), 0};
  if (nanosleep(&duration, &duration) == 0) return 0;
  return static_cast<unsigned int>(duration.tv_sec);
}

WARPSERVE_EXPORT int usleep(useconds_t us) {
  const timespec duration = timespec_of(static_cast<std::int64_t>(us) * kNsPerUs);
  return nanosleep(&duration, nullptr);
}

WARPSERVE_EXPORT int thrd_sleep(const timespec* duration, timespec* remaining) {
  if (nanosleep(duration, remaining) == 0) return 0;
  return errno == EINTR ? -1 : -2;
}

WARPSERVE_EXPORT int sched_yield() noexcept {
  if (is_member()) note_idle();
  return real().sched_yield();
}
