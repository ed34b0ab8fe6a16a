#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/graphs.hpp"

using namespace warpserve::gpu;

std::uint32_t cuThreadExchangeStreamCaptureMode(std::uint32_t* mode) {
  return driver_call([&] { exchange_capture_mode(mode); });
}
