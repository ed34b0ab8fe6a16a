// What becomes of each operator of PyTorch.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>

namespace warpserve::torch_ops {

enum class Execution : std::uint8_t {
  kComputed,     // on the CPU, where all that it reads and writes is control memory
  kFaithful,     // its CUDA kernel is right on control memory
  kNotComputed,  // its CUDA kernel does nothing
};

// When the CUDA kernel makes the host wait for the stream, as whoever needs data on the host does.
enum class Waits : std::uint8_t {
  kNever,
  kAlways,        // the size of the result depends on the data, or it is no tensor
  kUnlessSized,   // aten::repeat_interleave: likewise, unless the caller knows the size
  kForMask,       // aten::index: indices that are masks are turned into numbers first
  kForMaskedPut,  // aten::_index_put_impl_: likewise, unless it fills by one mask
};

struct Treatment {
  Execution execution = Execution::kComputed;
  Waits waits = Waits::kNever;
  bool is_copy = false;                  // aten::copy_
  std::optional<std::size_t> generator;  // the argument that random numbers are drawn from
};

// Nothing for operators that are left alone: views, and what computes nothing. For operators of
// `aten` with a CUDA kernel.
std::optional<Treatment> treatment_of(const c10::OperatorHandle& op);

}  // namespace warpserve::torch_ops
