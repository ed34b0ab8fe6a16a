// Other programs that an actor starts and waits for.
#pragma once

#include <sys/types.h>

#include <string>

namespace programs {

// Starts `binary` with one argument; returns its pid.
using Starter = pid_t (*)(const std::string& binary, const std::string& argument);

// Fails where no way to start one is called `means`.
Starter starter_called(const std::string& means);

void await_success(pid_t pid);

}  // namespace programs
