// What the launcher asks of a Timekeeper, as command-line flags of `warpserve-timekeeper`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "timekeeper/core/types.hpp"

namespace warpserve {

enum class OnStall { kFail, kWait };

struct Options {
  std::string folder;  // the session's: exists, is 0700, holds the token
  ClockMode mode = ClockMode::kExact;
  GuardKind guard = GuardKind::kSettle;
  std::int64_t realtime_epoch_ns = 0;
  bool audit = false;
  OnStall on_stall = OnStall::kFail;
  HostDuration stall_grace = HostDuration::from_ms(2'000);
  std::uint32_t slot_capacity = 65'536;
  std::uint32_t spin_limit = 100'000;
  VirtualDuration spin_quantum = VirtualDuration::from_ms(1);
  std::optional<std::string> trace_file;
  std::optional<std::string> summary_file;
  std::string zmq_library;            // empty: no ZeroMQ road
  std::optional<std::string> listen;  // tcp://… with CURVE, besides ipc:// in the folder
  std::string advertised_host;        // what other hosts connect to, where ADDRESS is a wildcard
  int ready_fd = -1;                  // "ready\n" is written here once members may join
};

// Throws UsageError.
Options parse_options(int argc, char** argv);

}  // namespace warpserve
