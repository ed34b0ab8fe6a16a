// Is somebody at a terminal expected to type? Then a session in which nothing can happen is not
// stalled.
#pragma once

#include <vector>

#include "timekeeper/server/process_watch.hpp"

namespace warpserve {

// Whether a thread of `processes` is blocked in a read of its standard input, or in a poll or
// select, in a process whose standard input is a terminal.
bool waits_for_terminal(const std::vector<ProcessPicture>& processes);

}  // namespace warpserve
