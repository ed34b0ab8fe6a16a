// The program's clocks, and libc's structures of time from and to nanoseconds.
#pragma once

#include <sys/time.h>
#include <time.h>

#include <cstdint>

#include "tests/programs/runner/fail.hpp"

namespace programs {

inline constexpr std::int64_t kNsPerUs = 1'000;
inline constexpr std::int64_t kNsPerMs = 1'000'000;
inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

inline timespec timespec_of(std::int64_t ns) {
  return {ns / kNsPerSecond, ns % kNsPerSecond};
}
inline timeval timeval_of(std::int64_t ns) {
  return {ns / kNsPerSecond, ns % kNsPerSecond / kNsPerUs};
}
inline int ms_of(std::int64_t ns) {
  return static_cast<int>(ns / kNsPerMs);
}

inline std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  must(clock_gettime(clock, &now), "clock_gettime");
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

// The reading of `clock` in `ns` from now.
inline timespec reading_in(clockid_t clock, std::int64_t ns) {
  return timespec_of(now_ns(clock) + ns);
}

}  // namespace programs
