#include "cuda_shim/torch_ops/host_tensor.hpp"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda_shim/torch_ops/gpu.hpp"

namespace warpserve::torch_ops {
namespace {

// Kernels may resize it: it then has memory of the CPU's allocator.
c10::Storage storage_over(const at::Tensor& device, bool written) {
  const c10::Storage& storage = device.storage();
  // The CPU only reads what is not written.
  void* const base = written ? storage.mutable_data() : const_cast<void*>(storage.data());
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(base, c10::Device(c10::kCPU)), c10::GetCPUAllocator(), /*resizable=*/true);
}

at::Tensor tensor_over(c10::Storage storage, const at::Tensor& device) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), device.dtype());
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(device.sizes(), device.strides(), device.storage_offset());
  if (device.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (device.is_conj()) impl->_set_conj(true);
  if (device.is_neg()) impl->_set_neg(true);
  return tensor;
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

bool same_bytes(const Operand& operand) {
  return operand.device.storage().data() == operand.host.storage().data();
}

// Without autograd, which has seen the operator already. New memory with gaps, as LAPACK's results
// have, becomes memory without.
void take_layout(const Operand& operand) {
  operand.device.resize_(operand.host.sizes());
  if (!same_bytes(operand) && !operand.host.is_non_overlapping_and_dense()) return;
  operand.device.unsafeGetTensorImpl()->set_sizes_and_strides(
      operand.host.sizes(), operand.host.strides(), operand.device.storage_offset());
}

}  // namespace

at::Tensor host_alias(const at::Tensor& device, bool written) {
  return tensor_over(storage_over(device, written), device);
}

const at::Tensor& Operands::host_of(const at::Tensor& device, bool written) {
  for (Operand& operand : operands_) {
    if (operand.device.is_same(device)) {
      operand.written |= written;
      return operand.host;
    }
  }
  at::Tensor host = tensor_over(storage_of(device, written), device);
  if (written && mode_ == Mode::kScratch) host = host.clone();
  return operands_.emplace_back(Operand{device, std::move(host), written}).host;
}

c10::Storage Operands::storage_of(const at::Tensor& device, bool written) const {
  const auto* const shared = std::ranges::find_if(operands_, [&](const Operand& operand) {
    return operand.device.storage().is_alias_of(device.storage()) && same_bytes(operand);
  });
  return shared == operands_.end() ? storage_over(device, written) : shared->host.storage();
}

const at::Tensor* Operands::device_of(const at::Tensor& host) const {
  const auto* const found = std::ranges::find_if(
      operands_, [&](const Operand& operand) { return operand.host.is_same(host); });
  return found == operands_.end() ? nullptr : &found->device;
}

void Operands::adopt_shapes() const {
  for (const Operand& operand : operands_) {
    if (!operand.written) continue;
    if (mode_ == Mode::kScratch) {
      if (operand.device.sizes() != operand.host.sizes()) take_layout(operand);
      continue;
    }
    if (same_layout(operand.device, operand.host) && same_bytes(operand)) continue;
    take_layout(operand);
    if (!same_bytes(operand) && is_control(operand.device)) {
      host_alias(operand.device, /*written=*/true).copy_(operand.host);
    }
  }
}

at::Tensor to_device(const at::Tensor& host, c10::Device device, Fill fill) {
  if (!host.defined()) return host;
  TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::kStrided && !host.is_quantized(),
                              "warpserve: a result that is no dense tensor");
  const at::Tensor packed = host.is_non_overlapping_and_dense() ? host : host.contiguous();
  at::Tensor result = at::detail::empty_strided_generic(
      packed.sizes(), packed.strides(), c10::GetAllocator(device.type()),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), packed.scalar_type());
  if (fill == Fill::kContents && is_control(result)) {
    std::memcpy(result.mutable_data_ptr(), packed.const_data_ptr(), packed.nbytes());
  }
  if (packed.is_conj()) result._set_conj(true);
  if (packed.is_neg()) result._set_neg(true);
  return result;
}

}  // namespace warpserve::torch_ops
