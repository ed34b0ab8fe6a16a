// The tensors in the arguments and results of a call.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>

namespace warpserve::torch_ops {

// Calls `each(tensor)` for the defined tensors of a value: a tensor or a list of them.
template <class Each>
void for_each_tensor(const c10::IValue& value, const Each& each) {
  const auto call = [&](const at::Tensor& tensor) {
    if (tensor.defined()) each(tensor);
  };
  if (value.isTensor()) {
    call(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) call(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor()) call(item.toTensor());
    }
  }
}

// The value with `map(tensor)` in place of its defined tensors.
template <class Map>
c10::IValue map_tensors(const c10::IValue& value, const Map& map) {
  const auto mapped = [&](const at::Tensor& tensor) -> at::Tensor {
    return tensor.defined() ? map(tensor) : tensor;
  };
  if (value.isTensor()) return mapped(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(mapped(tensor));
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const c10::IValue& item : value.toListRef()) {
      tensors.push_back(item.isTensor() ? std::optional(mapped(item.toTensor())) : std::nullopt);
    }
    return tensors;
  }
  return value;
}

inline bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

}  // namespace warpserve::torch_ops
