// The check of invariant T5: is the session really settled?
//
// Written apart from the look that it checks (process_watch.hpp): it lists all of /proc afresh,
// keeps nothing from call to call and trusts nobody's word. Slow, for `--audit`.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace warpserve {

// What contradicts "nothing can happen at this instant" for `roots` and their descendants, without
// the calling process:
//   - a thread that is not in state S, that is not off its run queue, or that ran between two
//     passes; a vfork parent in state D is allowed
//   - a thread that came or went between the passes
//   - bytes that the kernel holds back on a TCP connection of one of them (held_back_bytes.hpp)
//   - an io_uring descriptor, and descriptors or threads that may not be looked at
// Empty if nothing does. The kernel's soft-interrupt threads are not looked at: they also run for
// the sake of processes that are no members, and what they do for a member wakes a thread of it.
// The Timekeeper calls it just before an advance, with itself among the
// roots.
std::vector<std::string> audit(const std::vector<pid_t>& roots);

}  // namespace warpserve
