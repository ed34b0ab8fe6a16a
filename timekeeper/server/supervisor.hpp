// Starts members as children of the Timekeeper and ends whatever is left of them.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "timekeeper/core/types.hpp"
#include "timekeeper/server/fd.hpp"

namespace warpserve {

struct SpawnRequest {
  std::string directory;
  std::vector<std::string> arguments;    // at least one
  std::vector<std::string> environment;  // NAME=VALUE
  std::array<Fd, 3> stdio;
};

// Parses the memfd of ControlType::kSpawn. Throws UsageError on anything else than that format.
SpawnRequest read_spawn_request(int memfd, std::array<Fd, 3> stdio);

// The child dies with the calling thread, and gets `descriptor_limit` as RLIMIT_NOFILE. A program
// that cannot be run ends with status 127 and a line on its stderr. Throws std::system_error if the
// process cannot be made.
pid_t spawn(const SpawnRequest& request, rlimit descriptor_limit);

// All live descendants of this process, the newest last. Zombies are left out.
std::vector<pid_t> descendants();

// SIGTERM to all descendants, SIGKILL to those that live after `grace`. The caller's
// children must be reaped by another thread meanwhile. Returns how many there were.
std::size_t end_descendants(HostDuration grace);

}  // namespace warpserve
