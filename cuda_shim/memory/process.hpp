// Which process a pid means: the one that was started then, and that still lives.
#pragma once

#include <cstdint>
#include <optional>

namespace warpserve::gpu {

// When the process was started, in clock ticks since the host's boot. Nothing where it is gone, or
// a zombie, which holds nothing any more.
std::optional<std::uint64_t> process_start(std::uint32_t pid);

}  // namespace warpserve::gpu
