// What is asked of the virtual GPU and of PyTorch's side of it.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda_shim/warpserve_gpu.h"

namespace warpserve::torch_ops {

// The cudaStream_t of the device's current stream.
void* current_stream(c10::Device device);

// A dense tensor on a GPU, the only kind whose bytes mean what the CPU's kernels take them for.
inline bool is_dense_cuda(const at::Tensor& tensor) {
  return tensor.is_cuda() && tensor.key_set().has(c10::DispatchKey::Dense) &&
         tensor.unsafeGetTensorImpl()->has_storage() && !tensor._is_zerotensor();
}

// Whether all bytes of a dense tensor, there may be none, are control memory.
bool is_control(const at::Tensor& tensor);

}  // namespace warpserve::torch_ops
