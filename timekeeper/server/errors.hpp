// The Timekeeper's three exits: the user's mistake, our fault, and the end of the session.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

namespace warpserve {

// The user can mend it; the text says how. Ends the process with status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A system call failed that should not. Ends the process with status 70.
inline std::system_error os_error(const std::string& what) {
  return std::system_error(errno, std::generic_category(), what);
}

}  // namespace warpserve
