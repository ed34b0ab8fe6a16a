#include "cuda_shim/nvml/call.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nvml;

std::uint32_t nvmlInit() {
  return call([] { initialize(); });
}

std::uint32_t nvmlInit_v2() {
  return call([] { initialize(); });
}

std::uint32_t nvmlInitWithFlags(std::uint32_t) {
  return call([] { initialize(); });
}

std::uint32_t nvmlShutdown() {
  return call([] { shut_down(); });
}
