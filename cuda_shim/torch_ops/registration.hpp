// Registering kernels for as long as the process lives.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <utility>

namespace warpserve::torch_ops {

// In place of the kernel that the operator has for that key, if any.
void register_kernel(const c10::OperatorHandle& op, c10::DispatchKey key,
                     c10::KernelFunction kernel);

template <class Kernel>
void register_kernel(const c10::OperatorHandle& op, c10::DispatchKey key,
                     std::unique_ptr<Kernel> kernel) {
  register_kernel(op, key, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)));
}

}  // namespace warpserve::torch_ops
