// The ways in which an actor sleeps.
#pragma once

#include <cstdint>
#include <string>

namespace programs {

using Sleep = void (*)(std::int64_t ns);

// Fails where no way is called `means` (tests/programs/model.py lists them).
Sleep sleep_called(const std::string& means);

}  // namespace programs
