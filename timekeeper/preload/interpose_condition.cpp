// Condition variables, anew: glibc's timed wait has a host timeout that nobody can take out.
//
// The 48 bytes hold a sequence word that each signal raises, as in bionic and musl; waiters sleep
// on it, timed ones on their slot too (futex_waitv). A waiter reads the sequence before it gives up
// the mutex, so a signal in between makes the kernel refuse the sleep. A signal wakes whoever slept
// first. All zeros is PTHREAD_COND_INITIALIZER.
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <threads.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>

#include "timekeeper/preload/cancellation.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/python_image.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace {

// A deadline on one clock; `on_host` where it must be kept in host time.
struct Deadline {
  timespec reading;
  clockid_t clock;
  bool on_host;
};

class Condition {
 public:
  static Condition& of(pthread_cond_t* cond) { return *reinterpret_cast<Condition*>(cond); }

  void initialise(const pthread_condattr_t* attributes) {
    new (this) Condition;
    if (attributes == nullptr) return;
    int shared = PTHREAD_PROCESS_PRIVATE;
    pthread_condattr_getpshared(attributes, &shared);
    is_shared_ = shared == PTHREAD_PROCESS_SHARED ? 1 : 0;
    clockid_t clock = CLOCK_REALTIME;
    pthread_condattr_getclock(attributes, &clock);
    is_monotonic_ = clock == CLOCK_MONOTONIC ? 1 : 0;
  }

  clockid_t clock() const { return is_monotonic_ != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME; }

  void wake(int waiters) {
    if (waiters_.load() == 0) return;
    sequence_.fetch_add(1);
    raw_syscall(SYS_futex, &sequence_, FUTEX_WAKE | private_flag(), waiters);
  }

  // Returns 0, ETIMEDOUT, or the error of unlocking the mutex. `deadline` may be null.
  int wait(pthread_mutex_t* mutex, const Deadline* deadline) {
    waiters_.fetch_add(1);
    const std::uint32_t sequence = sequence_.load();
    if (const int error = pthread_mutex_unlock(mutex); error != 0) {
      leave();
      return error;
    }
    Cleanup cleanup = {this, mutex};
    int result = 0;
    pthread_cleanup_push(relock_when_cancelled, &cleanup);
    result = sleep(sequence, deadline);
    pthread_cleanup_pop(0);
    leave();
    const int error = pthread_mutex_lock(mutex);
    return error != 0 ? error : result;
  }

  // Waiters that have been woken may still be on their way out.
  void await_leavers() {
    for (auto left = waiters_.load(); left != 0; left = waiters_.load()) {
      raw_syscall(SYS_futex, &waiters_, FUTEX_WAIT | private_flag(), left, nullptr);
    }
  }

 private:
  struct Cleanup {
    Condition* condition;
    pthread_mutex_t* mutex;
  };

  static void relock_when_cancelled(void* argument) {
    const auto& cleanup = *static_cast<Cleanup*>(argument);
    cleanup.condition->leave();
    pthread_mutex_lock(cleanup.mutex);
  }

  void leave() {
    if (waiters_.fetch_sub(1) == 1) {
      raw_syscall(SYS_futex, &waiters_, FUTEX_WAKE | private_flag(), INT_MAX);
    }
  }

  int private_flag() const { return is_shared_ != 0 ? 0 : FUTEX_PRIVATE_FLAG; }

  int sleep(std::uint32_t sequence, const Deadline* deadline) {
    const CancellationPoint cancellable;
    if (!is_member() || (deadline != nullptr && deadline->on_host)) {
      return sleep_on_host(sequence, deadline);
    }
    const VirtualTime target =
        deadline == nullptr
            ? kNever
            : virtual_clock().instant_of(family_of(deadline->clock), deadline->reading);
    const FutexWord word = {&sequence_, sequence, is_shared_ == 0};
    while (true) {
      switch (wait_until_or_woken(target, word, "pthread_cond_wait")) {
        case WaitEnd::kReached:
          return ETIMEDOUT;
        case WaitEnd::kWoken:
        case WaitEnd::kChanged:
          return 0;
        case WaitEnd::kInterrupted:
          break;  // POSIX has no EINTR here
      }
    }
  }

  int sleep_on_host(std::uint32_t sequence, const Deadline* deadline) {
    const int clock_flag =
        deadline != nullptr && deadline->clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0;
    const long result = raw_syscall(
        SYS_futex, &sequence_, FUTEX_WAIT_BITSET | clock_flag | private_flag(), sequence,
        deadline == nullptr ? nullptr : &deadline->reading, nullptr, FUTEX_BITSET_MATCH_ANY);
    return result == -ETIMEDOUT ? ETIMEDOUT : 0;
  }

  std::atomic<std::uint32_t> sequence_{0};
  std::atomic<std::uint32_t> waiters_{0};
  std::uint32_t is_shared_ = 0;
  std::uint32_t is_monotonic_ = 0;
};
static_assert(sizeof(Condition) <= sizeof(pthread_cond_t));

// The same remaining time on the host's clock: for a wait that is a matter of the host's processor.
Deadline on_host(const Deadline& deadline) {
  const VirtualTime target =
      virtual_clock().instant_of(family_of(deadline.clock), deadline.reading);
  const HostTime end = HostTime::from_ns(host_now_ns())
                           .saturating_add(HostDuration::from_ns((target - virtual_now()).ns()));
  return {timespec_of(end < HostTime() ? 0 : end.ns()), CLOCK_MONOTONIC, true};
}

int timed_wait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
               const timespec* reading, const void* caller) {
  if (reading->tv_nsec < 0 || reading->tv_nsec >= kNsPerSecond) return EINVAL;
  Deadline deadline = {*reading, clock, false};
  if (is_member() && is_in_python_image(caller)) deadline = on_host(deadline);
  return Condition::of(cond).wait(mutex, &deadline);
}

int as_c11(int error) {
  switch (error) {
    case 0:
      return thrd_success;
    case ETIMEDOUT:
      return thrd_timedout;
    default:
      return thrd_error;
  }
}

pthread_cond_t* posix(cnd_t* cond) {
  return reinterpret_cast<pthread_cond_t*>(cond);
}
pthread_mutex_t* posix(mtx_t* mutex) {
  return reinterpret_cast<pthread_mutex_t*>(mutex);
}

}  // namespace

WARPSERVE_EXPORT int pthread_cond_init(pthread_cond_t* cond,
                                       const pthread_condattr_t* attributes) noexcept {
  Condition::of(cond).initialise(attributes);
  return 0;
}

WARPSERVE_EXPORT int pthread_cond_destroy(pthread_cond_t* cond) noexcept {
  Condition::of(cond).await_leavers();
  return 0;
}

WARPSERVE_EXPORT int pthread_cond_signal(pthread_cond_t* cond) noexcept {
  Condition::of(cond).wake(1);
  return 0;
}

WARPSERVE_EXPORT int pthread_cond_broadcast(pthread_cond_t* cond) noexcept {
  Condition::of(cond).wake(INT_MAX);
  return 0;
}

WARPSERVE_EXPORT int pthread_cond_wait(pthread_cond_t* cond, pthread_mutex_t* mutex) {
  return Condition::of(cond).wait(mutex, nullptr);
}

WARPSERVE_EXPORT int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex,
                                            const timespec* reading) {
  return timed_wait(cond, mutex, Condition::of(cond).clock(), reading, __builtin_return_address(0));
}

WARPSERVE_EXPORT int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex,
                                            clockid_t clock, const timespec* reading) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return timed_wait(cond, mutex, clock, reading, __builtin_return_address(0));
}

WARPSERVE_EXPORT int cnd_init(cnd_t* cond) {
  Condition::of(posix(cond)).initialise(nullptr);
  return thrd_success;
}

WARPSERVE_EXPORT void cnd_destroy(cnd_t* cond) {
  Condition::of(posix(cond)).await_leavers();
}

WARPSERVE_EXPORT int cnd_signal(cnd_t* cond) {
  Condition::of(posix(cond)).wake(1);
  return thrd_success;
}

WARPSERVE_EXPORT int cnd_broadcast(cnd_t* cond) {
  Condition::of(posix(cond)).wake(INT_MAX);
  return thrd_success;
}

WARPSERVE_EXPORT int cnd_wait(cnd_t* cond, mtx_t* mutex) {
  return as_c11(Condition::of(posix(cond)).wait(posix(mutex), nullptr));
}

WARPSERVE_EXPORT int cnd_timedwait(cnd_t* __restrict cond, mtx_t* __restrict mutex,
                                   const timespec* __restrict reading) {
  return as_c11(timed_wait(posix(cond), posix(mutex), CLOCK_REALTIME, reading, nullptr));
}
