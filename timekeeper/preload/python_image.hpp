// CPython's hand-over of the GIL waits on a condition variable for 5 ms at a time. That is a matter
// of the host's processor, not of virtual time: such a wait, told by the code that it returns to,
// keeps to host time. (CPython's locks with timeouts use semaphores.)
#pragma once

namespace warpserve {

// Does `address` lie in the code of the image (python or libpython) that holds the interpreter?
bool is_in_python_image(const void* address);

}  // namespace warpserve
