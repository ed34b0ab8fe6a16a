#include "cuda_shim/nvml/call.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nvml;

const char* nvmlErrorString(std::uint32_t result) {
  switch (static_cast<Code>(result)) {
    case Code::kSuccess:
      return "Success";
    case Code::kUninitialized:
      return "Uninitialized";
    case Code::kInvalidArgument:
      return "Invalid Argument";
    case Code::kNotSupported:
      return "Not Supported";
    case Code::kNotFound:
      return "Not Found";
    case Code::kInsufficientSize:
      return "Insufficient Size";
    case Code::kDriverNotLoaded:
      return "Driver Not Loaded";
    case Code::kUnknown:
      return "Unknown Error";
  }
  return "Unknown Error";
}
