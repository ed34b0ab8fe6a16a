// timerfds: for the program an eventfd, which reads the same (the expirations since the last read,
// in 8 bytes, blocking while there are none); the timer agent writes to a duplicate of it.
#pragma once

#include <time.h>

#include "timekeeper/preload/timers.hpp"

namespace warpserve {

struct TimerDescriptor {
  TimerIndex index = -1;
  clockid_t clock = CLOCK_MONOTONIC;
};

// Returns the descriptor, or -1 and errno.
int create_timer_descriptor(clockid_t clock, int flags);
// Null where `fd` is none.
const TimerDescriptor* timer_descriptor(int fd);
// What was not read yet is gone when the timer is set anew.
void forget_expirations(int fd);
// The program closes the descriptors from `first` to `last`; their timers end. Does nothing in a
// child of vfork, whose descriptors are not the process's.
void timer_descriptors_close(unsigned int first, unsigned int last);
// A forked child reads and polls what it has inherited; the parent's agent serves it, and the child
// can neither set nor end it.
void forget_timer_descriptors_after_fork();

}  // namespace warpserve
