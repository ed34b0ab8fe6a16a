// Locks and joins with a deadline.
//
// A mutex keeps glibc's protocol (lock word 0 free, 1 locked, 2 locked and somebody may sleep):
// whoever finds it locked makes it 2 and sleeps on the word and the slot at once, and after getting
// it leaves 2 behind, as others may still sleep. Robust, priority-inheriting and
// priority-protecting mutexes, read-write locks and joins keep to host time, and are counted.
#include <pthread.h>
#include <threads.h>

#include <atomic>
#include <cerrno>

#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/on_host.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace {

constexpr int kTypeMask = 3;        // normal, recursive, error-checking, adaptive
constexpr int kSpecialMask = 0x70;  // robust, priority-inheriting, priority-protecting
constexpr int kSharedFlag = 0x80;
constexpr std::uint32_t kLocked = 1;
constexpr std::uint32_t kContended = 2;

class TimedMutex {
 public:
  explicit TimedMutex(pthread_mutex_t* mutex) : mutex_(mutex) {}

  bool is_special() const { return (mutex_->__data.__kind & kSpecialMask) != 0; }

  int lock_until(VirtualTime target) {
    if (is_held_by_checking_caller()) return EDEADLK;
    for (bool has_slept = false;; has_slept = true) {
      const int result = pthread_mutex_trylock(mutex_);
      if (result == 0 && has_slept) change(kLocked, kContended);
      if (result != EBUSY) return result;
      change(kLocked, kContended);
      if (sleep(target) == WaitEnd::kReached) return ETIMEDOUT;
    }
  }

 private:
  std::atomic_ref<std::uint32_t> word() const {
    return std::atomic_ref(reinterpret_cast<std::uint32_t&>(mutex_->__data.__lock));
  }
  void change(std::uint32_t from, std::uint32_t to) const {
    word().compare_exchange_strong(from, to);
  }
  WaitEnd sleep(VirtualTime target) const {
    const FutexWord futex = {&mutex_->__data.__lock, kContended,
                             (mutex_->__data.__kind & kSharedFlag) == 0};
    return wait_until_or_woken(target, futex, "pthread_mutex_timedlock");
  }
  bool is_held_by_checking_caller() const {
    return (mutex_->__data.__kind & kTypeMask) == PTHREAD_MUTEX_ERRORCHECK_NP &&
           mutex_->__data.__owner == static_cast<int>(current_tid());
  }

  pthread_mutex_t* mutex_;
};

bool is_valid_reading(const timespec& reading) {
  return reading.tv_nsec >= 0 && reading.tv_nsec < kNsPerSecond;
}

// Calls `wait` with a deadline in host time.
template <class Wait>
int count_and_wait_on_host(clockid_t clock, const timespec* reading, Wait wait) {
  if (!is_member() || reading == nullptr || !is_valid_reading(*reading) ||
      family_of(clock) == ClockFamily::kHost) {
    return wait(reading);
  }
  count(Warning::kUnvirtualisedWait);
  const timespec host = on_host(clock, *reading);
  return wait(&host);
}

}  // namespace

WARPSERVE_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                             const timespec* reading) noexcept {
  TimedMutex timed(mutex);
  if (!is_member() || timed.is_special() || !is_valid_reading(*reading)) {
    return count_and_wait_on_host(clock, reading, [&](const timespec* host) {
      return real().pthread_mutex_clocklock(mutex, clock, host);
    });
  }
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return timed.lock_until(virtual_clock().instant_of(family_of(clock), *reading));
}

WARPSERVE_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex,
                                             const timespec* reading) noexcept {
  return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, reading);
}

WARPSERVE_EXPORT int mtx_timedlock(mtx_t* __restrict mutex, const timespec* __restrict reading) {
  switch (pthread_mutex_timedlock(reinterpret_cast<pthread_mutex_t*>(mutex), reading)) {
    case 0:
      return thrd_success;
    case ETIMEDOUT:
      return thrd_timedout;
    default:
      return thrd_error;
  }
}

WARPSERVE_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                                const timespec* reading) noexcept {
  return count_and_wait_on_host(clock, reading, [&](const timespec* host) {
    return real().pthread_rwlock_clockrdlock(lock, clock, host);
  });
}

WARPSERVE_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                                const timespec* reading) noexcept {
  return count_and_wait_on_host(clock, reading, [&](const timespec* host) {
    return real().pthread_rwlock_clockwrlock(lock, clock, host);
  });
}

WARPSERVE_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock,
                                                const timespec* reading) noexcept {
  return pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, reading);
}

WARPSERVE_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock,
                                                const timespec* reading) noexcept {
  return pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, reading);
}

WARPSERVE_EXPORT int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock,
                                          const timespec* reading) {
  return count_and_wait_on_host(clock, reading, [&](const timespec* host) {
    return real().pthread_clockjoin_np(thread, result, clock, host);
  });
}

WARPSERVE_EXPORT int pthread_timedjoin_np(pthread_t thread, void** result,
                                          const timespec* reading) {
  return pthread_clockjoin_np(thread, result, CLOCK_REALTIME, reading);
}
