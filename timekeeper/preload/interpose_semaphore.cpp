// Semaphores with a deadline, in glibc's own layout: sem_post and sem_wait stay glibc's, here and
// in other processes.
#include <linux/futex.h>
#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "timekeeper/preload/cancellation.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/semaphore.hpp"
#include "timekeeper/preload/thread_state.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace warpserve {

namespace {

// glibc's struct new_sem (sysdeps/nptl/internaltypes.h) where 64-bit atomics are lock-free.
class Semaphore {
 public:
  static Semaphore& of(sem_t* semaphore) { return *reinterpret_cast<Semaphore*>(semaphore); }

  bool try_take() { return take(0); }

  // Returns 0 or an error number.
  int take_until(VirtualTime target) {
    data_.fetch_add(kOneWaiter);
    const FutexWord word = {&data_, 0, shared_flag_ == 0};
    while (true) {
      if (take(kOneWaiter)) return 0;
      const WaitEnd end = wait_until_or_woken(target, word, "sem_wait");
      if (end == WaitEnd::kWoken || end == WaitEnd::kChanged) continue;
      // A post may have been meant for us at the very end.
      if (take(kOneWaiter)) return 0;
      data_.fetch_sub(kOneWaiter);
      return end == WaitEnd::kReached ? ETIMEDOUT : EINTR;
    }
  }

  std::uint64_t data() const { return data_.load(); }

 private:
  static constexpr std::uint64_t kOneWaiter = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kValueMask = kOneWaiter - 1;

  // Takes one from the value, and `waiters` from the waiters with it.
  bool take(std::uint64_t waiters) {
    std::uint64_t data = data_.load();
    while ((data & kValueMask) != 0) {
      if (data_.compare_exchange_weak(data, data - 1 - waiters)) return true;
    }
    return false;
  }

  std::atomic<std::uint64_t> data_;  // value in the low half (the futex word), waiters in the high
  std::uint32_t shared_flag_;        // 0, or FUTEX_PRIVATE_FLAG where it is shared
};
static_assert(sizeof(Semaphore) <= sizeof(sem_t));

int wait_until_reading(sem_t* semaphore, clockid_t clock, const timespec* reading) {
  if (reading->tv_nsec < 0 || reading->tv_nsec >= kNsPerSecond) return EINVAL;
  Semaphore& ours = Semaphore::of(semaphore);
  if (ours.try_take()) return 0;
  const CancellationPoint cancellable;
  return ours.take_until(virtual_clock().instant_of(family_of(clock), *reading));
}

int with_errno(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

bool semaphores_are_as_we_know_them() {
  sem_t semaphore;
  sem_init(&semaphore, 0, 3);
  Semaphore& ours = Semaphore::of(&semaphore);
  bool as_known = ours.data() == 3;
  sem_post(&semaphore);
  as_known = as_known && ours.data() == 4;
  as_known = as_known && ours.try_take();
  int value = 0;
  sem_getvalue(&semaphore, &value);
  return as_known && value == 3;
}

}  // namespace warpserve

WARPSERVE_EXPORT int sem_wait(sem_t* semaphore) {
  if (is_member()) {
    if (Semaphore::of(semaphore).try_take()) return 0;
    notice_fork();
    ring_before_blocking();
  }
  return real().sem_wait(semaphore);
}

WARPSERVE_EXPORT int sem_timedwait(sem_t* __restrict semaphore,
                                   const timespec* __restrict reading) {
  if (!is_member()) return real().sem_timedwait(semaphore, reading);
  return with_errno(wait_until_reading(semaphore, CLOCK_REALTIME, reading));
}

WARPSERVE_EXPORT int sem_clockwait(sem_t* __restrict semaphore, clockid_t clock,
                                   const timespec* __restrict reading) {
  if (!is_member()) return real().sem_clockwait(semaphore, clock, reading);
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return with_errno(EINVAL);
  return with_errno(wait_until_reading(semaphore, clock, reading));
}
