// System calls that touch neither errno nor libc: usable in signal handlers, between vfork and
// exec, and without meeting our own wrappers again.
#pragma once

#include <sys/syscall.h>

#include <type_traits>

namespace warpserve {

template <class T>
long syscall_word(T value) {
  if constexpr (std::is_null_pointer_v<T>) {
    return 0;
  } else if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else {
    return static_cast<long>(value);
  }
}

inline long raw_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

// Returns what the kernel returns: an error is -errno.
template <class... Arguments>
long raw_syscall(long number, Arguments... arguments) {
  static_assert(sizeof...(Arguments) <= 6);
  const long words[6] = {syscall_word(arguments)...};
  return raw_syscall6(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

inline bool is_syscall_error(long result) {
  return result < 0 && result >= -4095;
}

}  // namespace warpserve
