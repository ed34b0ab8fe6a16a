// One call of an operator, executed by the CPU's kernel on the memory of the GPU's tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "cuda_shim/torch_ops/host_tensor.hpp"
#include "cuda_shim/torch_ops/operators.hpp"

namespace warpserve::torch_ops {

using torch::jit::Stack;

struct Call {
  const c10::OperatorHandle& op;
  const Treatment& treatment;
  c10::Device device;      // where results are put; the current one
  bool capturing = false;  // its stream captures
};

// Here and now: `stack` holds the arguments, and then the results. Errors of the CPU's kernel are
// thrown, and the stack is then as it was; c10::NotImplementedError where that kernel lacks the
// type, or results would be no dense tensors.
void compute(const Call& call, Stack& stack);

// In the order of that stream: at each launch of its graph, or when what comes before is done.
// Results have their shape at once.
void compute_in_order(const Call& call, void* stream, Stack& stack);

}  // namespace warpserve::torch_ops
