// The futex system call, as code without libc's wrappers makes it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace programs {

using FutexWord = std::atomic<std::uint32_t>;

// FUTEX_WAIT: `timeout` counts from now. FUTEX_WAIT_BITSET: it is a reading of the clock.
inline long futex_wait(FutexWord& word, int operation, std::uint32_t expected,
                       const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, expected, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futex_wake(FutexWord& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1);
}

}  // namespace programs
