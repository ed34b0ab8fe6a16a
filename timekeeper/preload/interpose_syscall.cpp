// libc's syscall(): Rust's standard library, libstdc++'s atomic waits and abseil wait through it.
// What has a wrapper here goes to that wrapper; all else to the kernel.
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/on_host.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/thread_state.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace {

struct Call {
  long number;
  long words[6];

  template <class T>
  T as(int index) const {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(words[index]);
    } else {
      return static_cast<T>(words[index]);
    }
  }
};

long fail(int error) {
  errno = error;
  return -1;
}

long to_kernel(const Call& call) {
  const long result = raw_syscall6(call.number, call.words[0], call.words[1], call.words[2],
                                   call.words[3], call.words[4], call.words[5]);
  return is_syscall_error(result) ? fail(static_cast<int>(-result)) : result;
}

// A wait that keeps to host time, and is counted; its timeout, in words[3], is a reading of
// `clock`.
long to_kernel_on_host(Call call, clockid_t clock) {
  count(Warning::kUnvirtualisedWait);
  const auto* deadline = call.as<const timespec*>(3);
  // What the kernel refuses, it is given as it is.
  if (!is_valid(*deadline) || family_of(clock) == ClockFamily::kHost) return to_kernel(call);
  const timespec host = on_host(clock, *deadline);
  call.words[3] = syscall_word(&host);
  return to_kernel(call);
}

// What the deadline of a futex operation is a reading of.
clockid_t clock_of(int operation) {
  const bool is_realtime =
      (operation & FUTEX_CLOCK_REALTIME) != 0 || (operation & FUTEX_CMD_MASK) == FUTEX_LOCK_PI;
  return is_realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

// The protocol's own words: our waits sleep on them through here.
bool is_on_board(const void* address) {
  const auto word = reinterpret_cast<std::uintptr_t>(address);
  const auto first = reinterpret_cast<std::uintptr_t>(member.board);
  return word >= first && word < first + board_bytes(member.board->capacity);
}

long futex(const Call& call) {
  const auto* address = call.as<const void*>(0);
  const int operation = call.as<int>(1);
  const int command = operation & FUTEX_CMD_MASK;
  const auto* timeout = call.as<const timespec*>(3);
  const bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
  if (is_on_board(address) || !(waits || command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2 ||
                                command == FUTEX_WAIT_REQUEUE_PI)) {
    return to_kernel(call);
  }
  if (timeout == nullptr) {
    notice_fork();
    ring_before_blocking();
    return to_kernel(call);
  }
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(address) % 4 == 0;
  const bool is_relative = command == FUTEX_WAIT;
  const bool is_plain = waits && (is_relative || call.as<std::uint32_t>(5) == 0xffffffff);
  if (!is_aligned || !is_valid(*timeout)) return to_kernel(call);  // which refuses it
  if (!is_plain) return to_kernel_on_host(call, clock_of(operation));
  const VirtualTime target =
      is_relative ? virtual_now().saturating_add(duration_of(*timeout))
                  : virtual_clock().instant_of(family_of(clock_of(operation)), *timeout);
  const FutexWord word = {address, call.as<std::uint32_t>(2),
                          (operation & FUTEX_PRIVATE_FLAG) != 0};
  switch (wait_until_or_woken(target, word, "futex")) {
    case WaitEnd::kReached:
      return fail(ETIMEDOUT);
    case WaitEnd::kWoken:
      return 0;
    case WaitEnd::kChanged:
      return fail(EAGAIN);
    case WaitEnd::kInterrupted:
      return fail(EINTR);
  }
  __builtin_unreachable();
}

long with_errno(int error) {
  return error == 0 ? 0 : fail(error);
}

long pselect6(const Call& call) {
  struct Mask {
    const sigset_t* set;
    std::size_t bytes;
  };
  const auto* mask = call.as<const Mask*>(5);
  return pselect(call.as<int>(0), call.as<fd_set*>(1), call.as<fd_set*>(2), call.as<fd_set*>(3),
                 call.as<const timespec*>(4), mask == nullptr ? nullptr : mask->set);
}

long of_member(const Call& call) {
  switch (call.number) {
    case SYS_futex:
      return futex(call);
    case SYS_futex_waitv:
      return call.as<const timespec*>(3) == nullptr
                 ? to_kernel(call)
                 : to_kernel_on_host(call, call.as<clockid_t>(4));
    case SYS_io_uring_setup:
      count(Warning::kIoUring);
      return fail(ENOSYS);
    case SYS_clock_gettime:
      return clock_gettime(call.as<clockid_t>(0), call.as<timespec*>(1));
    case SYS_gettimeofday:
      return gettimeofday(call.as<timeval*>(0), call.as<void*>(1));
    case SYS_time:
      return time(call.as<time_t*>(0));
    case SYS_times:
      return times(call.as<tms*>(0));
    case SYS_sysinfo:
      return sysinfo(call.as<struct sysinfo*>(0));
    case SYS_nanosleep:
      return nanosleep(call.as<const timespec*>(0), call.as<timespec*>(1));
    case SYS_clock_nanosleep:
      return with_errno(clock_nanosleep(call.as<clockid_t>(0), call.as<int>(1),
                                        call.as<const timespec*>(2), call.as<timespec*>(3)));
    case SYS_sched_yield:
      return sched_yield();
    case SYS_poll:
      return poll(call.as<pollfd*>(0), call.as<nfds_t>(1), call.as<int>(2));
    case SYS_ppoll:
      return ppoll(call.as<pollfd*>(0), call.as<nfds_t>(1), call.as<const timespec*>(2),
                   call.as<const sigset_t*>(3));
    case SYS_select:
      return select(call.as<int>(0), call.as<fd_set*>(1), call.as<fd_set*>(2), call.as<fd_set*>(3),
                    call.as<timeval*>(4));
    case SYS_pselect6:
      return pselect6(call);
    case SYS_epoll_wait:
      return epoll_wait(call.as<int>(0), call.as<epoll_event*>(1), call.as<int>(2),
                        call.as<int>(3));
    case SYS_epoll_pwait:
      return epoll_pwait(call.as<int>(0), call.as<epoll_event*>(1), call.as<int>(2),
                         call.as<int>(3), call.as<const sigset_t*>(4));
    case SYS_epoll_pwait2:
      return epoll_pwait2(call.as<int>(0), call.as<epoll_event*>(1), call.as<int>(2),
                          call.as<const timespec*>(3), call.as<const sigset_t*>(4));
    case SYS_rt_sigtimedwait:
      return sigtimedwait(call.as<const sigset_t*>(0), call.as<siginfo_t*>(1),
                          call.as<const timespec*>(2));
    case SYS_setitimer:
      return setitimer(call.as<__itimer_which_t>(0), call.as<const itimerval*>(1),
                       call.as<itimerval*>(2));
    case SYS_getitimer:
      return getitimer(call.as<__itimer_which_t>(0), call.as<itimerval*>(1));
    case SYS_alarm:
      return static_cast<long>(alarm(call.as<unsigned int>(0)));
    case SYS_timerfd_create:
      return timerfd_create(call.as<clockid_t>(0), call.as<int>(1));
    case SYS_timerfd_settime:
      return timerfd_settime(call.as<int>(0), call.as<int>(1), call.as<const itimerspec*>(2),
                             call.as<itimerspec*>(3));
    case SYS_timerfd_gettime:
      return timerfd_gettime(call.as<int>(0), call.as<itimerspec*>(1));
    case SYS_timer_create:
      count(Warning::kUnvirtualisedWait);
      return to_kernel(call);
    case SYS_close:
      return close(call.as<int>(0));
    case SYS_close_range:
      return close_range(call.as<unsigned int>(0), call.as<unsigned int>(1), call.as<int>(2));
    case SYS_dup2:
      return dup2(call.as<int>(0), call.as<int>(1));
    case SYS_dup3:
      return dup3(call.as<int>(0), call.as<int>(1), call.as<int>(2));
    case SYS_execve:
      return execve(call.as<const char*>(0), call.as<char* const*>(1), call.as<char* const*>(2));
    default:
      return to_kernel(call);
  }
}

}  // namespace

WARPSERVE_EXPORT long syscall(long number, ...) noexcept {
  Call call = {number, {}};
  va_list list;
  va_start(list, number);
  for (long& word : call.words) word = va_arg(list, long);
  va_end(list);
  return is_member() ? of_member(call) : to_kernel(call);
}
