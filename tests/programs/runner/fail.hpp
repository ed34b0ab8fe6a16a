// Ends the runner, and with it the test, where something does not work as it must.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace programs {

// _exit: other threads may be in the middle of anything.
[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "runner: %s\n", what.c_str());
  _exit(1);
}

// For calls that return -1 and set errno.
template <class Result>
Result must(Result result, const char* call) {
  if (result == -1) fail(std::string(call) + ": " + std::strerror(errno));
  return result;
}

// For calls that return an error number.
inline void must_be_zero(int error, const char* call) {
  if (error != 0) fail(std::string(call) + ": " + std::strerror(error));
}

inline void expect(bool holds, const char* what) {
  if (!holds) fail(what);
}

}  // namespace programs
