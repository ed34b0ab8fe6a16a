// What is registered for an operator of PyTorch in place of its CUDA kernel.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "cuda_shim/torch_ops/operators.hpp"
#include "cuda_shim/torch_ops/placement.hpp"
#include "cuda_shim/torch_ops/tally.hpp"

namespace warpserve::torch_ops {

// Computes on the CPU what lies in control memory. Everything else goes to the CUDA kernel, which
// computes nothing; where something could have seen its results, that is counted.
class HostKernel final : public c10::OperatorKernel {
 public:
  HostKernel(c10::SafeKernelFunction cuda, const Treatment& treatment, Tally& tally)
      : cuda_(std::move(cuda)), treatment_(treatment), tally_(tally) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  bool is_for_the_host(const Placed& placed, const torch::jit::Stack& stack) const;
  void compute_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       const Placed& placed, torch::jit::Stack& stack);
  void call_cuda(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Placement placement,
                 torch::jit::Stack& stack);

  const c10::SafeKernelFunction cuda_;
  const Treatment treatment_;
  Tally& tally_;
};

}  // namespace warpserve::torch_ops
