// The program may not close or replace the library's own descriptors; for it they do not exist.
//
// They change no state between vfork and exec, when the process's memory is its parent's.
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "timekeeper/preload/descriptors.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/timer_descriptors.hpp"

using namespace warpserve;

namespace {

constexpr int kCloseRangeCloexec = 1 << 2;

int with_errno(long result) {
  if (!is_syscall_error(result)) return static_cast<int>(result);
  errno = static_cast<int>(-result);
  return -1;
}

int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

WARPSERVE_EXPORT int close(int fd) {
  if (is_our_descriptor(fd)) return fail(EBADF);
  timer_descriptors_close(static_cast<unsigned int>(fd), static_cast<unsigned int>(fd));
  return real().close(fd);
}

WARPSERVE_EXPORT int __close(int fd) {
  return close(fd);
}

// dup2 may say EBUSY: the number is about to become a descriptor elsewhere.
WARPSERVE_EXPORT int dup2(int from, int to) noexcept {
  if (is_our_descriptor(to)) return fail(EBUSY);
  if (from != to)
    timer_descriptors_close(static_cast<unsigned int>(to), static_cast<unsigned int>(to));
  return with_errno(raw_syscall(SYS_dup2, from, to));
}

WARPSERVE_EXPORT int __dup2(int from, int to) noexcept {
  return dup2(from, to);
}

WARPSERVE_EXPORT int dup3(int from, int to, int flags) noexcept {
  if (is_our_descriptor(to)) return fail(EBUSY);
  if (from != to)
    timer_descriptors_close(static_cast<unsigned int>(to), static_cast<unsigned int>(to));
  return with_errno(raw_syscall(SYS_dup3, from, to, flags));
}

// Closes what lies between ours.
WARPSERVE_EXPORT int close_range(unsigned int first, unsigned int last, int flags) noexcept {
  if (first > last) return fail(EINVAL);
  const bool only_marks = (flags & kCloseRangeCloexec) != 0;
  if (!only_marks) timer_descriptors_close(first, last);
  while (!only_marks && first <= last && first <= static_cast<unsigned int>(INT_MAX)) {
    const int ours = next_our_descriptor(static_cast<int>(first));
    const auto end = static_cast<unsigned int>(ours);
    if (ours < 0 || end > last) break;
    if (end > first) {
      const long result = raw_syscall(SYS_close_range, first, end - 1, flags);
      if (is_syscall_error(result)) return with_errno(result);
    }
    first = end + 1;
  }
  if (first > last) return 0;
  return with_errno(raw_syscall(SYS_close_range, first, last, flags));
}

WARPSERVE_EXPORT void closefrom(int first) noexcept {
  close_range(static_cast<unsigned int>(first < 0 ? 0 : first), ~0U, 0);
}
