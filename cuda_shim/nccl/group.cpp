#include "cuda_shim/nccl/call.hpp"

using namespace warpserve::gpu::nccl;

std::uint32_t ncclGroupStart() {
  return nccl_call([] { start_group(); });
}

std::uint32_t ncclGroupEnd() {
  return nccl_call([] { end_group(); });
}
