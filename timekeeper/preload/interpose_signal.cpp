// sigtimedwait: a signal is awaited on a signalfd beside the slot. sigwait and sigwaitinfo have no
// deadline and stay libc's.
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>

#include "timekeeper/preload/cancellation.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace {

constexpr timespec kNoTime = {0, 0};
constexpr std::size_t kKernelMaskBytes = 8;

int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

WARPSERVE_EXPORT int sigtimedwait(const sigset_t* __restrict set, siginfo_t* __restrict info,
                                  const timespec* __restrict timeout) {
  if (!is_member() || timeout == nullptr) return real().sigtimedwait(set, info, timeout);
  if (!is_valid(*timeout)) return fail(EINVAL);
  const VirtualTime target = virtual_now().saturating_add(duration_of(*timeout));
  int signal = real().sigtimedwait(set, info, &kNoTime);
  if (signal >= 0 || errno != EAGAIN || timeout->tv_sec + timeout->tv_nsec == 0) return signal;

  // Another thread may take the signal first: then we wait on.
  const long fd = raw_syscall(SYS_signalfd4, -1, set, kKernelMaskBytes, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return fail(static_cast<int>(-fd));
  int woken = 0;
  do {
    pollfd polled = {static_cast<int>(fd), POLLIN, 0};
    woken = wait_until_or_ready(target, &polled, 1, nullptr, "sigtimedwait");
    if (woken >= 0) signal = real().sigtimedwait(set, info, &kNoTime);
  } while (woken > 0 && signal < 0 && errno == EAGAIN);
  const int error = errno;
  raw_syscall(SYS_close, fd);
  errno = error;
  return signal;
}
