#include "cuda_shim/torch_ops/placement.hpp"

#include <algorithm>

#include "cuda_shim/torch_ops/arguments.hpp"
#include "cuda_shim/torch_ops/gpu.hpp"

namespace warpserve::torch_ops {
namespace {

using torch::jit::Stack;

bool is_dense_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.key_set().has(c10::DispatchKey::Dense);
}

void add(Placed& placed, const at::Tensor& tensor) {
  if (is_dense_cuda(tensor)) {
    if (!placed.device) placed.device = tensor.device();
    if (placed.placement == Placement::kControl && !is_control(tensor)) {
      placed.placement = Placement::kCompute;
    }
  } else if (!is_dense_cpu(tensor)) {
    placed.placement = Placement::kForeign;
  }
}

bool has_readable_bytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return false;
  return is_dense_cuda(tensor) ? is_control(tensor) : is_dense_cpu(tensor);
}

bool has_readable_bytes(const c10::IValue& value) {
  bool found = false;
  for_each_tensor(value, [&](const at::Tensor& tensor) { found |= has_readable_bytes(tensor); });
  return found;
}

bool is_number(const c10::IValue& value) {
  return value.isScalar() || value.isBool();
}

}  // namespace

Placed place(const c10::FunctionSchema& schema, const Stack& stack) {
  Placed placed;
  for (const c10::IValue& value : torch::jit::last(stack, schema.arguments().size())) {
    for_each_tensor(value, [&](const at::Tensor& tensor) { add(placed, tensor); });
    if (!placed.device && value.isDevice() && value.toDevice().is_cuda()) {
      placed.device = value.toDevice();
    }
  }
  return placed;
}

Stack written_arguments(const c10::FunctionSchema& schema, const Stack& stack) {
  Stack written;
  const auto values = torch::jit::last(stack, schema.arguments().size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_written(schema.arguments()[i])) written.push_back(values[i]);
  }
  return written;
}

bool leaves_unknown(const c10::FunctionSchema& schema, const Stack& written, const Stack& stack) {
  const auto results = torch::jit::last(stack, schema.returns().size());
  return std::ranges::any_of(written,
                             [](const auto& value) { return has_readable_bytes(value); }) ||
         std::ranges::any_of(results, [](const auto& value) {
           return is_number(value) || has_readable_bytes(value);
         });
}

}  // namespace warpserve::torch_ops
