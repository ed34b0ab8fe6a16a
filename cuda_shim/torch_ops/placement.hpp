// Where the bytes of a call's tensors are.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <optional>

namespace warpserve::torch_ops {

enum class Placement : std::uint8_t {
  kControl,  // the CPU can read and write all of them
  kCompute,  // some have no contents
  kForeign,  // some tensor is not dense: its bytes are none of ours
};

struct Placed {
  Placement placement = Placement::kControl;
  std::optional<c10::Device> device;  // the GPU of the first tensor, or else of a device argument
};

// Of the arguments, which are the last on the stack.
Placed place(const c10::FunctionSchema& schema, const torch::jit::Stack& stack);

// Whether a call has left something of the host's or control memory as it was: of the arguments
// that it writes, or of its results, which are the last on the stack.
bool leaves_unknown(const c10::FunctionSchema& schema, const torch::jit::Stack& written,
                    const torch::jit::Stack& stack);

// The arguments that the call writes.
torch::jit::Stack written_arguments(const c10::FunctionSchema& schema,
                                    const torch::jit::Stack& stack);

}  // namespace warpserve::torch_ops
