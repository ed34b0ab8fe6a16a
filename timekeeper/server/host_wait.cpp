#include "timekeeper/server/host_wait.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>

namespace warpserve {
namespace {

// Numbers that the C library's headers of the build host may lack.
constexpr long kEpollPwait2 = 441;
constexpr long kFutexWaitv = 449;
constexpr long kFutexWait = 455;

// A timeout in milliseconds: negative is "for ever".
bool has_timeout_ms(std::uint64_t argument) {
  return static_cast<int>(argument) >= 0;
}
// A pointer to a timeout: null is "for ever".
bool has_timeout_at(std::uint64_t argument) {
  return argument != 0;
}

bool futex_has_timeout(const BlockedCall& call) {
  switch (call.arguments[1] & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAIT_REQUEUE_PI:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
      return has_timeout_at(call.arguments[3]);
    default:
      return false;
  }
}

// Stacks of 64-bit programs lie above 4 GiB.
bool is_32_bit(const BlockedCall& call) {
  return call.stack_pointer >> 32 == 0;
}

// read, write, waitpid, wait4, waitid in the i386 table.
bool is_plain_wait_32_bit(long number) {
  constexpr std::array<long, 5> kPlain = {3, 4, 7, 114, 284};
  return std::ranges::find(kPlain, number) != kPlain.end();
}

}  // namespace

bool ends_on_host_time(const BlockedCall& call, std::string_view wchan) {
  if (wchan == "hrtimer_nanosleep" || wchan == "do_nanosleep") return true;
  if (call.number < 0) return false;
  if (is_32_bit(call)) return !is_plain_wait_32_bit(call.number);
  const auto& arguments = call.arguments;
  switch (call.number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_restart_syscall:
      return true;
    case SYS_poll:
      return has_timeout_ms(arguments[2]);
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return has_timeout_ms(arguments[3]);
    case SYS_rt_sigtimedwait:
    case SYS_ppoll:
      return has_timeout_at(arguments[2]);
    case kEpollPwait2:
    case kFutexWaitv:
    case SYS_semtimedop:
      return has_timeout_at(arguments[3]);
    case SYS_select:
    case SYS_pselect6:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_recvmmsg:
    case kFutexWait:
      return has_timeout_at(arguments[4]);
    case SYS_futex:
      return futex_has_timeout(call);
    default:
      return false;
  }
}

bool waits_for_vfork_child(const BlockedCall& call, std::string_view wchan) {
  const bool makes_a_process =
      call.number == SYS_vfork || call.number == SYS_clone || call.number == SYS_clone3;
  return makes_a_process && (wchan == "kernel_clone" || wchan == "wait_for_vfork_done" ||
                             wchan == "_do_fork" || wchan == "do_fork");
}

}  // namespace warpserve
