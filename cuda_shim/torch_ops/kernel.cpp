#include "cuda_shim/torch_ops/kernel.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "cuda_shim/torch_ops/arguments.hpp"
#include "cuda_shim/torch_ops/gpu.hpp"
#include "cuda_shim/torch_ops/host_call.hpp"
#include "cuda_shim/torch_ops/outside.hpp"

namespace warpserve::torch_ops {
namespace {

void wait_for(c10::Device device) {
  const c10::impl::VirtualGuardImpl gpus(device.type());
  gpus.getStream(device).synchronize();
}

// Indices are the second argument of those that index, and the values of a put the third.
bool waits_for_masks(const Stack& stack, const c10::FunctionSchema& schema, Waits waits) {
  const std::size_t arguments = schema.arguments().size();
  int masks = 0;
  int others = 0;
  for_each_tensor(torch::jit::peek(stack, 1, arguments), [&](const at::Tensor& index) {
    const bool is_mask = index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
    ++(is_mask ? masks : others);
  });
  if (masks == 0) return false;
  if (waits == Waits::kForMask || masks + others > 1) return true;
  const at::Tensor& value = torch::jit::peek(stack, 2, arguments).toTensor();
  const bool accumulates = torch::jit::peek(stack, 3, arguments).toBool();
  return accumulates || !value.is_cpu() || value.numel() != 1;
}

bool waits_for_stream(const Stack& stack, const c10::FunctionSchema& schema, Waits waits) {
  switch (waits) {
    case Waits::kNever:
      return false;
    case Waits::kAlways:
      return true;
    case Waits::kUnlessSized:
      return torch::jit::peek(stack, 1, schema.arguments().size()).isNone();
    default:
      return waits_for_masks(stack, schema, waits);
  }
}

// Whether the CUDA kernel of aten::copy_ uses the runtime's copies, alone or with operators of ours
// around them: between devices, and where both sides are laid out alike.
bool is_plain_copy(const Stack& stack, std::size_t arguments) {
  const at::Tensor& to = torch::jit::peek(stack, 0, arguments).toTensor();
  const at::Tensor& from = torch::jit::peek(stack, 1, arguments).toTensor();
  if (to.is_cpu() || from.is_cpu()) return true;
  const bool alike = to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
                     to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
  return alike && to.is_contiguous() && from.is_contiguous();
}

// Shapes are found with the data as it is. Where the kernel refuses that, an index may be what is
// not there yet.
void compute_behind_others(const Call& call, void* stream, Stack& stack) {
  try {
    compute_in_order(call, stream, stack);
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const c10::Error&) {
    TORCH_CHECK(ws_gpu_catch_up(stream) == 0, "warpserve: ", call.device, " has no such stream");
    compute(call, stack);
  }
}

}  // namespace

void HostKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  watch_new_operators();
  const Placed placed = place(op.schema(), *stack);
  if (is_for_the_host(placed, *stack)) {
    compute_on_host(op, keys, placed, *stack);
  } else {
    call_cuda(op, keys, placed.placement, *stack);
  }
}

bool HostKernel::is_for_the_host(const Placed& placed, const Stack& stack) const {
  if (placed.placement != Placement::kControl || !placed.device) return false;
  if (treatment_.execution != Execution::kComputed) return false;
  return !treatment_.is_copy || !is_plain_copy(stack, 3);
}

void HostKernel::compute_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                 const Placed& placed, Stack& stack) {
  const c10::DeviceGuard guard(*placed.device);
  if (waits_for_stream(stack, op.schema(), treatment_.waits)) wait_for(*placed.device);
  void* const stream = current_stream(*placed.device);
  const int progress = ws_gpu_progress(stream);
  const Call call{op, treatment_, *placed.device, progress == WS_GPU_CAPTURING};
  try {
    if (progress == WS_GPU_UP_TO_DATE) {
      compute(call, stack);
    } else if (progress == WS_GPU_CAPTURING) {
      compute_in_order(call, stream, stack);
    } else {
      compute_behind_others(call, stream, stack);
    }
  } catch (const c10::NotImplementedError&) {
    call_cuda(op, keys, Placement::kControl, stack);
  } catch (const c10::IndexError&) {
    // An index that was never computed says nothing of the program.
    if (!something_is_unknown()) throw;
    call_cuda(op, keys, Placement::kControl, stack);
  }
}

void HostKernel::call_cuda(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                           Placement placement, Stack& stack) {
  const Stack written = written_arguments(op.schema(), stack);
  cuda_.callBoxed(op, keys, &stack);
  if (placement == Placement::kForeign) return;
  const bool right = placement == Placement::kControl &&
                     (treatment_.execution == Execution::kFaithful || treatment_.is_copy);
  if (right || !leaves_unknown(op.schema(), written, stack)) return;
  if (placement == Placement::kCompute) {
    tally_.add_from_compute_memory();
  } else {
    tally_.add_not_computed();
  }
}

}  // namespace warpserve::torch_ops
