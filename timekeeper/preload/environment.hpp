// Environments as exec takes them.
#pragma once

#include <cstddef>
#include <cstring>

namespace warpserve {

// The value of a variable, or null.
inline const char* variable_of(char* const* environment, const char* name) {
  const std::size_t bytes = strlen(name);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (strncmp(*environment, name, bytes) == 0 && (*environment)[bytes] == '=') {
      return *environment + bytes + 1;
    }
  }
  return nullptr;
}

}  // namespace warpserve
