// The three ways in which a thread of a member waits for an instant of virtual time: on nothing
// else, on a futex word too, on descriptors too. Every interposed wait ends in one of these. A wait
// for the end of the present instant is a fourth, which programs have to ask for.
//
// All notice a fork by raw system call, ring the doorbell, and return at once where the instant has
// passed or the session is over. (It is then about to be ended by the Timekeeper or, if that was
// killed, by the launcher, which kill the waits that have begun; those that begin are slowed down
// so that loops around them do not burn the processor.)
#pragma once

#include <poll.h>
#include <signal.h>

#include <cstdint>

#include "timekeeper/core/types.hpp"
#include "timekeeper/preload/virtual_clock.hpp"
#include "timekeeper/shared/slot.hpp"

namespace warpserve {

enum class WaitEnd {
  kReached,      // the instant has come
  kWoken,        // a wake-up of the futex word
  kChanged,      // the word was not as expected
  kInterrupted,  // a signal handler has run
};

// A word of the program that a wait is also on.
struct FutexWord {
  const void* address;  // 4 bytes, aligned
  std::uint32_t expected;
  bool is_private;  // FUTEX_PRIVATE_FLAG
};

// Until nothing more happens at this instant; goes on after signal handlers. At once where host
// time passes.
void settle(const char* label);

// `kNever` as a target: until a signal, or the word, or the descriptors.
WaitEnd wait_until(VirtualTime target, const char* label);
WaitEnd wait_until_or_woken(VirtualTime target, const FutexWord& word, const char* label);
// The same in a slot of the caller's; `target` is not `kNever`.
WaitEnd wait_in_slot(SlotOwner& slot, VirtualTime target, const FutexWord& word);
// As ppoll(2), cancellation point included: the number of ready descriptors, 0 at the instant, or
// -1 and errno.
int wait_until_or_ready(VirtualTime target, pollfd* fds, nfds_t count, const sigset_t* mask,
                        const char* label);
// As pselect(2).
int wait_until_or_selected(VirtualTime target, int count, fd_set* readable, fd_set* writable,
                           fd_set* exceptional, const sigset_t* mask, const char* label);

}  // namespace warpserve
