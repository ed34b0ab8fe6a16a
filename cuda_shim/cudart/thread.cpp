#include "cuda_shim/entry/graphs.hpp"
#include "cuda_shim/entry/runtime.hpp"

using namespace warpserve::gpu;

std::uint32_t cudaThreadExchangeStreamCaptureMode(std::uint32_t* mode) {
  return runtime_call([&] { exchange_capture_mode(mode); });
}
