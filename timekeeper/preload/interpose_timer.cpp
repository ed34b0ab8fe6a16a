// alarm, setitimer, timer_create and timerfd on virtual time. Timers on CPU time stay the kernel's.
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "timekeeper/preload/descriptors.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/timer_descriptors.hpp"
#include "timekeeper/preload/timers.hpp"

using namespace warpserve;

namespace {

int fail(int error) {
  errno = error;
  return -1;
}

bool is_valid(const itimerspec& spec) {
  return warpserve::is_valid(spec.it_value) && warpserve::is_valid(spec.it_interval);
}

// Sets a timer of ours as timer_settime and timerfd_settime do.
int set(TimerIndex index, const itimerspec& wanted, bool is_absolute, ClockFamily family,
        itimerspec* old) {
  int error = 0;
  const TimerSetting before = set_timer(index, setting_of(wanted, is_absolute, family), error);
  if (error != 0) return fail(-error);
  if (old != nullptr) *old = remaining_of(before);
  return 0;
}

// --- The interval timer of the process -----------------------------------------------------------

std::atomic<TimerIndex> interval_timer{-1};
std::atomic<std::uint32_t> interval_timer_generation{0};

// Created at its first use, anew after a fork.
TimerIndex the_interval_timer() {
  notice_fork();
  if (interval_timer_generation.load() == member.generation) return interval_timer.load();
  const TimerIndex created =
      create_timer({.kind = TimerAction::Kind::kSignalProcess, .signal = SIGALRM, .value = {}});
  interval_timer.store(created);
  if (created >= 0) interval_timer_generation.store(member.generation);
  return created;
}

itimerspec spec_of(const itimerval& value) {
  return {timespec_of(ns_of(value.it_interval)), timespec_of(ns_of(value.it_value))};
}

itimerval value_of(const itimerspec& spec) {
  // Rounded up, as a timer that is armed does not read as 0.
  const std::int64_t ns = ns_of(spec.it_value) + kNsPerUs - 1;
  return {timeval_of(ns_of(spec.it_interval)), timeval_of(ns)};
}

// --- timer_create --------------------------------------------------------------------------------

// Our ids among the kernel's (small numbers) and glibc's (negative).
constexpr std::intptr_t kFirstTimerId = 0x57530000;

timer_t id_of(TimerIndex index) {
  return reinterpret_cast<timer_t>(kFirstTimerId + index);
}

bool is_ours(timer_t id, TimerIndex& index) {
  const std::intptr_t offset = reinterpret_cast<std::intptr_t>(id) - kFirstTimerId;
  if (offset < 0 || offset >= kMaxTimers) return false;
  index = static_cast<TimerIndex>(offset);
  return has_timer(index);
}

std::atomic<int> clocks_of_timers[kMaxTimers];

bool action_of(const sigevent* event, TimerAction& action) {
  if (event == nullptr) {
    action = {.kind = TimerAction::Kind::kSignalProcess, .signal = SIGALRM, .value = {}};
    return true;
  }
  action.signal = event->sigev_signo;
  action.value = event->sigev_value;
  switch (event->sigev_notify) {
    case SIGEV_NONE:
      return true;
    case SIGEV_SIGNAL:
      action.kind = TimerAction::Kind::kSignalProcess;
      return action.signal > 0 && action.signal <= SIGRTMAX;
    case SIGEV_THREAD_ID:
      action.kind = TimerAction::Kind::kSignalThread;
      action.thread = event->_sigev_un._tid;
      return action.signal > 0 && action.signal <= SIGRTMAX;
    case SIGEV_THREAD:
      action.kind = TimerAction::Kind::kStartThread;
      action.function = event->sigev_notify_function;
      action.attributes = event->sigev_notify_attributes;
      return true;
    default:
      return false;
  }
}

}  // namespace

WARPSERVE_EXPORT int setitimer(__itimer_which_t which, const itimerval* __restrict wanted,
                               itimerval* __restrict old) noexcept {
  if (!is_member() || which != ITIMER_REAL) return real().setitimer(which, wanted, old);
  if (wanted == nullptr || !warpserve::is_valid(wanted->it_value) ||
      !warpserve::is_valid(wanted->it_interval)) {
    return fail(EINVAL);
  }
  const TimerIndex index = the_interval_timer();
  if (index < 0) return fail(EAGAIN);
  itimerspec before{};
  if (set(index, spec_of(*wanted), false, ClockFamily::kMonotonic, &before) != 0) return -1;
  if (old != nullptr) *old = value_of(before);
  return 0;
}

WARPSERVE_EXPORT int getitimer(__itimer_which_t which, itimerval* value) noexcept {
  if (!is_member() || which != ITIMER_REAL) return real().getitimer(which, value);
  const TimerIndex index = the_interval_timer();
  if (index < 0) return fail(EAGAIN);
  *value = value_of(remaining_of(timer_setting(index)));
  return 0;
}

WARPSERVE_EXPORT unsigned int alarm(unsigned int seconds) noexcept {
  if (!is_member()) return real().alarm(seconds);
  const itimerval wanted = {{0, 0}, {static_cast<time_t>(seconds), 0}};
  itimerval old{};
  if (setitimer(ITIMER_REAL, &wanted, &old) != 0) return 0;
  const std::int64_t ns = ns_of(old.it_value);
  if (ns == 0) return 0;
  return static_cast<unsigned int>(
      std::max<std::int64_t>((ns + kNsPerSecond / 2) / kNsPerSecond, 1));
}

WARPSERVE_EXPORT useconds_t ualarm(useconds_t us, useconds_t interval_us) noexcept {
  const itimerval wanted = {timeval_of(static_cast<std::int64_t>(interval_us) * kNsPerUs),
                            timeval_of(static_cast<std::int64_t>(us) * kNsPerUs)};
  itimerval old{};
  if (setitimer(ITIMER_REAL, &wanted, &old) != 0) return static_cast<useconds_t>(-1);
  return static_cast<useconds_t>(ns_of(old.it_value) / kNsPerUs);
}

WARPSERVE_EXPORT int timer_create(clockid_t clock, sigevent* __restrict event,
                                  timer_t* __restrict id) noexcept {
  if (!is_member() || family_of(clock) == ClockFamily::kHost) {
    return real().timer_create(clock, event, id);
  }
  notice_fork();
  TimerAction action;
  if (!action_of(event, action)) return fail(EINVAL);
  const TimerIndex index = create_timer(action);
  if (index < 0) return fail(-index);
  clocks_of_timers[index].store(clock);
  *id = id_of(index);
  return 0;
}

WARPSERVE_EXPORT int timer_settime(timer_t id, int flags, const itimerspec* __restrict wanted,
                                   itimerspec* __restrict old) noexcept {
  TimerIndex index = -1;
  if (!is_ours(id, index)) return real().timer_settime(id, flags, wanted, old);
  if (wanted == nullptr || !is_valid(*wanted)) return fail(EINVAL);
  return set(index, *wanted, (flags & TIMER_ABSTIME) != 0,
             family_of(clocks_of_timers[index].load()), old);
}

WARPSERVE_EXPORT int timer_gettime(timer_t id, itimerspec* value) noexcept {
  TimerIndex index = -1;
  if (!is_ours(id, index)) return real().timer_gettime(id, value);
  *value = remaining_of(timer_setting(index));
  return 0;
}

WARPSERVE_EXPORT int timer_getoverrun(timer_t id) noexcept {
  TimerIndex index = -1;
  return is_ours(id, index) ? timer_overruns(index) : real().timer_getoverrun(id);
}

WARPSERVE_EXPORT int timer_delete(timer_t id) noexcept {
  TimerIndex index = -1;
  if (!is_ours(id, index)) return real().timer_delete(id);
  delete_timer(index);
  return 0;
}

WARPSERVE_EXPORT int timerfd_create(clockid_t clock, int flags) noexcept {
  if (!is_member()) return real().timerfd_create(clock, flags);
  if (family_of(clock) == ClockFamily::kHost || (flags & ~(TFD_NONBLOCK | TFD_CLOEXEC)) != 0) {
    return fail(EINVAL);
  }
  notice_fork();
  return create_timer_descriptor(clock, flags);
}

WARPSERVE_EXPORT int timerfd_settime(int fd, int flags, const itimerspec* wanted,
                                     itimerspec* old) noexcept {
  const TimerDescriptor* timer = timer_descriptor(fd);
  if (timer == nullptr) return real().timerfd_settime(fd, flags, wanted, old);
  // Nobody sets a session's clock, so TFD_TIMER_CANCEL_ON_SET never cancels.
  if ((flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) != 0 || !is_valid(*wanted)) {
    return fail(EINVAL);
  }
  forget_expirations(fd);
  return set(timer->index, *wanted, (flags & TFD_TIMER_ABSTIME) != 0, family_of(timer->clock), old);
}

WARPSERVE_EXPORT int timerfd_gettime(int fd, itimerspec* value) noexcept {
  const TimerDescriptor* timer = timer_descriptor(fd);
  if (timer == nullptr) return real().timerfd_gettime(fd, value);
  *value = remaining_of(timer_setting(timer->index));
  return 0;
}
