// The timers of the process (setitimer, timer_create, timerfd), on virtual time.
//
// One agent thread, started with the first timer, waits in a slot for the earliest and does what it
// is there for: sends a signal, writes to a descriptor, starts a thread. It has all signals
// blocked.
#pragma once

#include <signal.h>
#include <time.h>

#include "timekeeper/core/types.hpp"
#include "timekeeper/preload/virtual_clock.hpp"

namespace warpserve {

using TimerIndex = int;
inline constexpr int kMaxTimers = 1024;  // indices are below

// What happens when a timer is due.
struct TimerAction {
  enum class Kind { kNone, kSignalProcess, kSignalThread, kStartThread, kWriteDescriptor };
  Kind kind = Kind::kNone;
  int signal = 0;
  pid_t thread = 0;                    // kSignalThread
  sigval value{};                      // goes with the signal or to the thread
  void (*function)(sigval) = nullptr;  // kStartThread
  const pthread_attr_t* attributes = nullptr;
  int descriptor = -1;  // kWriteDescriptor: an eventfd
};

struct TimerSetting {
  VirtualTime next = kNever;  // never: disarmed
  VirtualDuration interval;   // 0: once
};

// Returns -EAGAIN where there are too many.
TimerIndex create_timer(const TimerAction& action);
bool has_timer(TimerIndex index);
// The action of the timer, for its owner to clean up.
TimerAction delete_timer(TimerIndex index);
// Returns the old setting. -EAGAIN in `error` where the agent cannot be started.
TimerSetting set_timer(TimerIndex index, const TimerSetting& setting, int& error);
TimerSetting timer_setting(TimerIndex index);
// Expirations that the last notification stood for, beyond the first.
int timer_overruns(TimerIndex index);

// A forked child has no timers of its parent's.
void forget_timers_after_fork();

// From libc's structures, `is_absolute` on a clock of that family; and what remains of a setting.
TimerSetting setting_of(const itimerspec& spec, bool is_absolute, ClockFamily family);
itimerspec remaining_of(const TimerSetting& setting);

}  // namespace warpserve
