// What can be chosen about the memory of the virtual GPUs.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace warpserve::gpu {

// Memory cannot be set up at all. The message says what to do.
struct MemoryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

inline constexpr const char* kControlThresholdVariable = "WARPSERVE_CONTROL_THRESHOLD_BYTES";
inline constexpr const char* kHostMemoryVariable = "WARPSERVE_HOST_MEMORY_BYTES";

struct MemoryOptions {
  // Allocations of fewer bytes are control memory.
  std::uint64_t control_threshold_bytes = 4 * kMiB;
  // What the processes of a session together may pin, and have as managed memory. A usual box of
  // 8 GPUs has 2 TiB.
  std::uint64_t host_memory_bytes = 2048 * kGiB;
  // Address space is reserved in pieces of this size, by device.
  std::uint64_t arena_bytes = 1024 * kGiB;
  // The file in which the processes of a session count what they use. Empty: this process alone.
  std::string account_path;

  // With the two variables above, and the account of the session that this process is a member of.
  // Throws MemoryError where a variable is no number.
  static MemoryOptions of_process();
};

}  // namespace warpserve::gpu
