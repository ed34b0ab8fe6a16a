#include "cuda_shim/torch_ops/gpu.hpp"

#include <ATen/EmptyTensor.h>
#define USE_CUDA  // declares what follows; needs no header of CUDA
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace warpserve::torch_ops {

void* current_stream(c10::Device device) {
  void* stream = nullptr;
  const AOTITorchError error = aoti_torch_get_current_cuda_stream(device.index(), &stream);
  TORCH_CHECK(error == AOTI_TORCH_SUCCESS, "warpserve: no current stream of ", device);
  return stream;
}

bool is_control(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  const std::size_t item_bytes = tensor.dtype().itemsize();
  const std::size_t bytes =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), item_bytes);
  const auto* const base = static_cast<const char*>(tensor.storage().data());
  if (base == nullptr) return false;
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * item_bytes;
  return ws_gpu_is_control(base + offset, bytes) != 0;
}

}  // namespace warpserve::torch_ops
