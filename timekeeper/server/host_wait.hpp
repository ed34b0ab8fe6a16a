// Which blocked system calls end by themselves when host time passes.
//
// A process that is not a member sleeps on the host's clocks. While it does, its timer is part of
// what must still happen at this instant of virtual time.
#pragma once

#include <string_view>

#include "timekeeper/server/procfs.hpp"

namespace warpserve {

// `wchan`: the kernel function that the thread sleeps in.
//
// True too for what can't be told: a wait that was interrupted and restarted, and any wait of a
// 32-bit program beyond the plain ones. Not seen here: timers that are armed apart from the wait
// (timerfd, setitimer, timer_create, SO_RCVTIMEO).
bool ends_on_host_time(const BlockedCall& call, std::string_view wchan);

// A parent that waits until its vfork child has called exec or ended. State D, but only that
// child, which is watched, can end it.
bool waits_for_vfork_child(const BlockedCall& call, std::string_view wchan);

}  // namespace warpserve
