#include "timekeeper/preload/timers.hpp"

#include <linux/futex.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "timekeeper/preload/descriptors.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/signal_safe_lock.hpp"
#include "timekeeper/preload/wait.hpp"

namespace warpserve {

namespace {

constexpr std::size_t kAgentStackBytes = 128 * 1024;

struct Timer {
  bool exists = false;
  TimerAction action;
  TimerSetting setting;
  int overruns = 0;
};

// Expirations up to now; moves `next` behind it.
std::int64_t expire(TimerSetting& setting, VirtualTime now) {
  if (setting.next > now) return 0;
  if (setting.interval.ns() == 0) {
    setting.next = kNever;
    return 1;
  }
  const std::int64_t expirations = (now - setting.next).ns() / setting.interval.ns() + 1;
  setting.next =
      setting.next.saturating_add(VirtualDuration::from_ns(expirations * setting.interval.ns()));
  return expirations;
}

// rt_sigqueueinfo's siginfo as the kernel's own timers fill it in.
siginfo_t timer_signal(const TimerAction& action, int overruns) {
  siginfo_t info{};
  info.si_signo = action.signal;
  info.si_code = SI_TIMER;
  info.si_overrun = overruns;
  info.si_value = action.value;
  return info;
}

struct ThreadStart {
  void (*function)(sigval);
  sigval value;
};

void* run_notification(void* argument) {
  const ThreadStart start = *static_cast<ThreadStart*>(argument);
  free(argument);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  start.function(start.value);
  return nullptr;
}

void start_thread(const TimerAction& action) {
  auto* start = static_cast<ThreadStart*>(malloc(sizeof(ThreadStart)));
  if (start == nullptr) return;
  *start = {action.function, action.value};
  pthread_t thread{};
  if (pthread_create(&thread, action.attributes, run_notification, start) != 0) {
    free(start);
    return;
  }
  int detached = PTHREAD_CREATE_JOINABLE;
  if (action.attributes != nullptr) pthread_attr_getdetachstate(action.attributes, &detached);
  if (detached == PTHREAD_CREATE_JOINABLE) pthread_detach(thread);
}

void notify(const TimerAction& action, std::int64_t expirations, int overruns) {
  switch (action.kind) {
    case TimerAction::Kind::kNone:
    case TimerAction::Kind::kStartThread:
      break;
    case TimerAction::Kind::kSignalProcess: {
      const siginfo_t info = timer_signal(action, overruns);
      raw_syscall(SYS_rt_sigqueueinfo, member.pid, action.signal, &info);
      break;
    }
    case TimerAction::Kind::kSignalThread: {
      const siginfo_t info = timer_signal(action, overruns);
      raw_syscall(SYS_rt_tgsigqueueinfo, member.pid, action.thread, action.signal, &info);
      break;
    }
    case TimerAction::Kind::kWriteDescriptor: {
      const auto count = static_cast<std::uint64_t>(expirations);
      raw_syscall(SYS_write, action.descriptor, &count, sizeof count);
      break;
    }
  }
}

class TimerTable {
 public:
  TimerIndex create(const TimerAction& action) {
    const SignalSafeGuard guard(lock_);
    Timer* const place = std::find_if(timers_, timers_ + kMaxTimers,
                                      [](const Timer& timer) { return !timer.exists; });
    if (place == timers_ + kMaxTimers) return -EAGAIN;
    *place = Timer{.exists = true, .action = action, .setting = {}, .overruns = 0};
    const auto index = static_cast<TimerIndex>(place - timers_);
    used_ = std::max(used_, index + 1);
    return index;
  }

  TimerAction remove(TimerIndex index) {
    const SignalSafeGuard guard(lock_);
    const TimerAction action = timers_[index].action;
    timers_[index] = Timer{};
    wake_agent();
    return action;
  }

  TimerSetting set(TimerIndex index, const TimerSetting& setting, int& error) {
    const SignalSafeGuard guard(lock_);
    error = start_agent();
    const TimerSetting old = timers_[index].setting;
    if (error != 0) return old;
    timers_[index].setting = setting;
    wake_agent();
    return old;
  }

  Timer read(TimerIndex index) {
    const SignalSafeGuard guard(lock_);
    return timers_[index];
  }

  void forget_after_fork() {
    lock_.forget_owner();
    agent_runs_ = false;
    std::fill(timers_, timers_ + used_, Timer{});
  }

 private:
  // Called with the lock held, and so with all signals blocked: the agent inherits that.
  int start_agent() {
    if (agent_runs_) return 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kAgentStackBytes);
    pthread_t agent{};
    const int error = pthread_create(&agent, &attributes, run_agent, this);
    pthread_attr_destroy(&attributes);
    agent_runs_ = error == 0;
    return -error;
  }

  static void* run_agent(void* table) {
    pthread_setname_np(pthread_self(), "warpserve-timer");
    static_cast<TimerTable*>(table)->serve();
    return nullptr;
  }

  [[noreturn]] void serve() {
    while (true) {
      const std::uint32_t seen = changes_.load();
      wait_until_or_woken(earliest(), {&changes_, seen, true}, "timer");
      while (serve_one()) {
      }
    }
  }

  VirtualTime earliest() {
    const SignalSafeGuard guard(lock_);
    VirtualTime first = kNever;
    for (int i = 0; i < used_; ++i) first = std::min(first, timers_[i].setting.next);
    return first;
  }

  // False: none is due. A timer that has been stopped or deleted does nothing afterwards, so all
  // but starting a thread is done with the lock held.
  bool serve_one() {
    TimerAction action;
    {
      const SignalSafeGuard guard(lock_);
      const VirtualTime now = virtual_now();
      Timer* const due = std::find_if(
          timers_, timers_ + used_, [&](const Timer& timer) { return timer.setting.next <= now; });
      if (due == timers_ + used_) return false;
      const std::int64_t expirations = expire(due->setting, now);
      due->overruns = static_cast<int>(std::min<std::int64_t>(expirations - 1, INT_MAX));
      action = due->action;
      notify(action, expirations, due->overruns);
    }
    if (action.kind == TimerAction::Kind::kStartThread) start_thread(action);
    return true;
  }

  void wake_agent() {
    changes_.fetch_add(1);
    raw_syscall(SYS_futex, &changes_, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
  }

  SignalSafeLock lock_;
  std::atomic<std::uint32_t> changes_{0};  // the futex word that the agent sleeps on
  bool agent_runs_ = false;
  int used_ = 0;  // timers from here on never existed
  Timer timers_[kMaxTimers];
};

constinit TimerTable table;

}  // namespace

TimerIndex create_timer(const TimerAction& action) {
  return table.create(action);
}

bool has_timer(TimerIndex index) {
  return index >= 0 && index < kMaxTimers && table.read(index).exists;
}

TimerAction delete_timer(TimerIndex index) {
  return table.remove(index);
}

TimerSetting set_timer(TimerIndex index, const TimerSetting& setting, int& error) {
  return table.set(index, setting, error);
}

TimerSetting timer_setting(TimerIndex index) {
  return table.read(index).setting;
}

int timer_overruns(TimerIndex index) {
  return table.read(index).overruns;
}

void forget_timers_after_fork() {
  table.forget_after_fork();
}

TimerSetting setting_of(const itimerspec& spec, bool is_absolute, ClockFamily family) {
  if (ns_of(spec.it_value) == 0) return {};
  const VirtualTime next = is_absolute ? virtual_clock().instant_of(family, spec.it_value)
                                       : virtual_now().saturating_add(duration_of(spec.it_value));
  return {next, duration_of(spec.it_interval)};
}

itimerspec remaining_of(const TimerSetting& setting) {
  itimerspec spec{};
  spec.it_interval = timespec_of(setting.interval.ns());
  if (setting.next == kNever) return spec;
  // An armed timer never reads as a disarmed one.
  spec.it_value = timespec_of(std::max<std::int64_t>((setting.next - virtual_now()).ns(), 1));
  return spec;
}

}  // namespace warpserve
