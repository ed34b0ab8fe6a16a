// How often a program called what the virtual GPU does not have, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpserve::cuda_shim {

struct UnsupportedCount {
  std::string name;
  std::uint64_t calls;
};

// Of each unsupported entry point so far, in order of first call.
std::vector<UnsupportedCount> unsupported_counts();

}  // namespace warpserve::cuda_shim
