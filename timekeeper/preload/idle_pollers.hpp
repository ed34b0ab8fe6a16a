// Threads of well-known libraries that wait on descriptors with a short timeout for one reason
// only: to notice that they are to end. Each timeout is an advance of time that nobody needs, so
// these wait longer; what they wait for wakes them as before.
#pragma once

namespace warpserve {

// A timeout in ms as epoll_wait has it: that of the code at `caller`, or a longer one.
int patient_timeout_ms(int timeout_ms, const void* caller);

}  // namespace warpserve
