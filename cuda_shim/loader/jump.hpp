// Machine code that leads elsewhere.
#pragma once

#include <cstddef>

namespace warpserve::gpu {

// What a jump takes: jmp *0(%rip), and after it the address.
inline constexpr std::size_t kJumpBytes = 14;

// From now on the function at `from`, which has room for it, is the one at `to`. No thread may be
// in those bytes. False where the system lets nobody change code.
bool write_jump(void* from, const void* to);

// Whether a function does nothing (endbr64, ret), with room for a jump before the next begins.
bool is_empty_function(const void* function);

}  // namespace warpserve::gpu
