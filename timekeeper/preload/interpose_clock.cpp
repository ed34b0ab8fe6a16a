// Clock reads: a load from the clock page.
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timeb.h>
#include <sys/times.h>
#include <time.h>

#include <cerrno>

#include "timekeeper/preload/busy_wait.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/real.hpp"

using namespace warpserve;

namespace {

constexpr std::int64_t kNsPerTick = kNsPerSecond / 100;  // sysconf(_SC_CLK_TCK), Linux's USER_HZ

std::int64_t read_ns(ClockFamily family) {
  const VirtualTime now = virtual_now();
  note_idle(now);
  return virtual_clock().reading_ns(family, now);
}

}  // namespace

WARPSERVE_EXPORT int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const ClockFamily family = family_of(clock);
  if (!is_member() || family == ClockFamily::kHost) return real().clock_gettime(clock, time);
  *time = timespec_of(read_ns(family));
  return 0;
}

WARPSERVE_EXPORT int gettimeofday(timeval* __restrict time, void* __restrict zone) noexcept {
  if (!is_member()) return real().gettimeofday(time, zone);
  if (zone != nullptr) *static_cast<struct timezone*>(zone) = {};
  if (time != nullptr) *time = timeval_of(read_ns(ClockFamily::kRealtime));
  return 0;
}

WARPSERVE_EXPORT time_t time(time_t* result) noexcept {
  if (!is_member()) return real().time(result);
  const time_t seconds = read_ns(ClockFamily::kRealtime) / kNsPerSecond;
  if (result != nullptr) *result = seconds;
  return seconds;
}

WARPSERVE_EXPORT int timespec_get(timespec* time, int base) noexcept {
  if (!is_member() || base != TIME_UTC) return real().timespec_get(time, base);
  *time = timespec_of(read_ns(ClockFamily::kRealtime));
  return base;
}

WARPSERVE_EXPORT int ftime(timeb* result) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *result = {};
  result->time = now.tv_sec;
  result->millitm = static_cast<unsigned short>(now.tv_nsec / kNsPerMs);
  return 0;
}

// The CPU times are the host's; what is returned is a monotonic clock.
WARPSERVE_EXPORT clock_t times(tms* cpu_times) noexcept {
  const clock_t ticks = real().times(cpu_times);
  if (!is_member() || ticks == -1) return ticks;
  return read_ns(ClockFamily::kMonotonic) / kNsPerTick;
}

WARPSERVE_EXPORT int sysinfo(struct sysinfo* info) noexcept {
  const int result = real().sysinfo(info);
  if (!is_member() || result != 0) return result;
  info->uptime = read_ns(ClockFamily::kMonotonic) / kNsPerSecond;
  return 0;
}

// Nobody sets the session's clock, nor, by mistake, the host's.
WARPSERVE_EXPORT int clock_settime(clockid_t clock, const timespec* time) noexcept {
  if (!is_member()) return real().clock_settime(clock, time);
  errno = EPERM;
  return -1;
}

WARPSERVE_EXPORT int settimeofday(const timeval* time, const struct timezone* zone) noexcept {
  if (!is_member()) return real().settimeofday(time, zone);
  errno = EPERM;
  return -1;
}
