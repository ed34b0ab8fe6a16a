// The operators of other libraries (vllm::, _C::, sgl_kernel::): their CUDA kernels compute
// nothing, and nobody knows how to do so on the CPU. Where they should have written control memory
// they are counted.
#pragma once

namespace warpserve::torch_ops {

// From now on those that are defined are watched, and those that are there already.
void watch_other_libraries();

// Watches those that were defined since the last call. Cheap where there are none.
void watch_new_operators();

}  // namespace warpserve::torch_ops
