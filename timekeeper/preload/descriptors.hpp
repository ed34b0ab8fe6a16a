// The descriptors that the library itself holds in the process: high numbers, close-on-exec, and
// not to be closed by the program (daemons close all they see).
#pragma once

namespace warpserve {

// Moves `fd` out of the program's way and remembers it as ours. Returns the new number, or -errno.
int keep_descriptor(int fd);
void drop_descriptor(int fd);
bool is_our_descriptor(int fd);
// The lowest of ours that is not below `fd`, or -1.
int next_our_descriptor(int fd);

}  // namespace warpserve
