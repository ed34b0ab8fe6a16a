#include "timekeeper/preload/busy_wait.hpp"

#include "timekeeper/preload/wait.hpp"

namespace warpserve {

void charge_busy_wait() {
  ThreadState& thread = own_state();
  if (thread.slot_in_use) return;  // a signal handler in the midst of a wait
  if (!thread.in_busy_wait) count(Warning::kBusyWait);
  const auto quantum = VirtualDuration::from_ns(member.clock_page->spin_quantum_ns);
  wait_until(virtual_now().saturating_add(quantum), "busy wait");
  thread.in_busy_wait = true;
  thread.idle_count = 0;
}

}  // namespace warpserve
