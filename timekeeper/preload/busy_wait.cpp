#include "timekeeper/preload/busy_wait.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/wait.hpp"

namespace warpserve {

namespace {

// How often the thread has blocked, in whatever call.
long times_blocked() {
  rusage usage{};
  raw_syscall(SYS_getrusage, RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace

void charge_busy_wait() {
  ThreadState& thread = own_state();
  if (thread.slot_in_use) return;  // a signal handler in the midst of a wait
  thread.idle_count = 0;
  if (thread.in_busy_wait && times_blocked() != thread.blocked_at_charge) {
    // It has blocked in a call that is not ours: the busy-wait was over.
    thread.in_busy_wait = false;
    return;
  }
  if (!thread.in_busy_wait) {
    count(Warning::kBusyWait);
    thread.next_charge_ns = 1;
  }
  const auto charge = VirtualDuration::from_ns(thread.next_charge_ns);
  thread.next_charge_ns = std::min(2 * thread.next_charge_ns, member.clock_page->spin_quantum_ns);
  wait_until(virtual_now().saturating_add(charge), "busy wait");
  thread.in_busy_wait = true;
  thread.blocked_at_charge = times_blocked();
}

}  // namespace warpserve
