// poll, select and epoll with a timeout. Without one they go to the kernel, after the doorbell.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <algorithm>
#include <cerrno>

#include "timekeeper/preload/busy_wait.hpp"
#include "timekeeper/preload/cancellation.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/idle_pollers.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace {

// The instant at which a timeout is over.
VirtualTime end_of_ms(int timeout_ms) {
  if (timeout_ms < 0) return kNever;
  return virtual_now().saturating_add(VirtualDuration::from_ms(timeout_ms));
}

VirtualTime end_of(const timespec* timeout) {
  return timeout == nullptr ? kNever : virtual_now().saturating_add(duration_of(*timeout));
}

int fail(int error) {
  errno = error;
  return -1;
}

// A sleep in the guise of a poll without descriptors.
int sleep_in_poll(VirtualTime target, const char* label) {
  const CancellationPoint cancellable;
  return wait_until(target, label) == WaitEnd::kReached ? 0 : fail(EINTR);
}

// Polls without waiting are what a busy-wait is made of.
int note_if_idle(VirtualTime target, int result, std::uint32_t weight) {
  if (result == 0 && target <= virtual_now()) note_idle(weight);
  return result;
}

int poll_until(VirtualTime target, pollfd* fds, nfds_t count, const sigset_t* mask,
               const char* label) {
  if (count == 0 && mask == nullptr && target > virtual_now()) return sleep_in_poll(target, label);
  return note_if_idle(target, wait_until_or_ready(target, fds, count, mask, label),
                      kEmptyPollWeight);
}

// Another thread may take the events between our being woken and our asking for them: then we wait
// on.
int epoll_until(VirtualTime target, int epoll, epoll_event* events, int max_events,
                const sigset_t* mask, const char* label) {
  int ready = real().epoll_pwait(epoll, events, max_events, 0, mask);
  while (ready == 0 && target > virtual_now()) {
    pollfd polled = {epoll, POLLIN, 0};
    const int woken = wait_until_or_ready(target, &polled, 1, mask, label);
    if (woken < 0) return woken;
    ready = real().epoll_pwait(epoll, events, max_events, 0, mask);
    if (woken == 0) return ready;
  }
  return note_if_idle(target, ready, 1);  // an event loop at work does so once a turn
}

}  // namespace

WARPSERVE_EXPORT int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  if (!is_member()) return real().poll(fds, count, timeout_ms);
  return poll_until(end_of_ms(timeout_ms), fds, count, nullptr, "poll");
}

WARPSERVE_EXPORT int __poll(pollfd* fds, nfds_t count, int timeout_ms) {
  return poll(fds, count, timeout_ms);
}

WARPSERVE_EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* timeout,
                           const sigset_t* mask) {
  if (!is_member()) return real().ppoll(fds, count, timeout, mask);
  if (timeout != nullptr && !is_valid(*timeout)) return fail(EINVAL);
  return poll_until(end_of(timeout), fds, count, mask, "ppoll");
}

// What poll and ppoll are in programs built with _FORTIFY_SOURCE.
extern "C" [[noreturn]] void __chk_fail();

WARPSERVE_EXPORT int __poll_chk(pollfd* fds, nfds_t count, int timeout_ms, std::size_t bytes) {
  if (bytes / sizeof(pollfd) < count) __chk_fail();
  return poll(fds, count, timeout_ms);
}

WARPSERVE_EXPORT int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout,
                                 const sigset_t* mask, std::size_t bytes) {
  if (bytes / sizeof(pollfd) < count) __chk_fail();
  return ppoll(fds, count, timeout, mask);
}

WARPSERVE_EXPORT int pselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                             const timespec* timeout, const sigset_t* mask) {
  if (!is_member()) return real().pselect(count, readable, writable, exceptional, timeout, mask);
  if (timeout != nullptr && !is_valid(*timeout)) return fail(EINVAL);
  const VirtualTime target = end_of(timeout);
  if (count == 0 && mask == nullptr && target > virtual_now()) {
    return sleep_in_poll(target, "select");
  }
  return note_if_idle(
      target,
      wait_until_or_selected(target, count, readable, writable, exceptional, mask, "select"),
      kEmptyPollWeight);
}

// As Linux has it, `timeout` is left holding what remains of it.
WARPSERVE_EXPORT int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                            timeval* timeout) {
  if (!is_member()) return real().select(count, readable, writable, exceptional, timeout);
  if (timeout == nullptr) return pselect(count, readable, writable, exceptional, nullptr, nullptr);
  if (timeout->tv_sec < 0 || timeout->tv_usec < 0) return fail(EINVAL);
  const timespec duration = timespec_of(ns_of(*timeout));
  const VirtualTime target = end_of(&duration);
  const int result = pselect(count, readable, writable, exceptional, &duration, nullptr);
  *timeout = timeval_of(std::max<std::int64_t>((target - virtual_now()).ns(), 0));
  return result;
}

WARPSERVE_EXPORT int __select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                              timeval* timeout) {
  return select(count, readable, writable, exceptional, timeout);
}

WARPSERVE_EXPORT int epoll_pwait(int epoll, epoll_event* events, int max_events, int timeout_ms,
                                 const sigset_t* mask) {
  if (!is_member()) return real().epoll_pwait(epoll, events, max_events, timeout_ms, mask);
  if (timeout_ms < 0) {
    notice_fork();
    ring_before_blocking();
    return real().epoll_pwait(epoll, events, max_events, timeout_ms, mask);
  }
  return epoll_until(end_of_ms(timeout_ms), epoll, events, max_events, mask, "epoll_wait");
}

WARPSERVE_EXPORT int epoll_wait(int epoll, epoll_event* events, int max_events, int timeout_ms) {
  if (is_member()) timeout_ms = patient_timeout_ms(timeout_ms, __builtin_return_address(0));
  return epoll_pwait(epoll, events, max_events, timeout_ms, nullptr);
}

WARPSERVE_EXPORT int epoll_pwait2(int epoll, epoll_event* events, int max_events,
                                  const timespec* timeout, const sigset_t* mask) {
  if (is_member() && timeout != nullptr && is_valid(*timeout)) {
    return epoll_until(end_of(timeout), epoll, events, max_events, mask, "epoll_wait");
  }
  if (is_member() && timeout == nullptr) {
    return epoll_pwait(epoll, events, max_events, -1, mask);
  }
  const CancellationPoint cancellable;
  const long result = raw_syscall(SYS_epoll_pwait2, epoll, events, max_events, timeout, mask,
                                  sizeof(std::uint64_t));
  return is_syscall_error(result) ? fail(static_cast<int>(-result)) : static_cast<int>(result);
}
