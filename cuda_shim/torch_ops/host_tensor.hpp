// One tensor on two sides: the same bytes as the GPU's tensor and as the CPU's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace warpserve::torch_ops {

// A tensor of the GPU among the arguments of a call.
struct Operand {
  at::Tensor device;
  at::Tensor host;
  bool written = false;
};

// The GPU's tensors of one call as the CPU sees them. What shares a tensor or a storage there does
// so here, which kernels ask for. The tensors of the host own no memory.
class Operands {
 public:
  enum class Mode {
    kSame,     // the same bytes
    kScratch,  // what would be written is a copy, so that nothing changes but shapes
  };
  explicit Operands(Mode mode) : mode_(mode) {}

  const at::Tensor& host_of(const at::Tensor& device, bool written);
  // Null where no operand has this tensor of the host.
  const at::Tensor* device_of(const at::Tensor& host) const;

  // A kernel gives outputs the shape that it needs, and with it new memory: the GPU's tensors
  // follow, and take the contents unless in scratch.
  void adopt_shapes() const;

 private:
  c10::Storage storage_of(const at::Tensor& device, bool written) const;

  const Mode mode_;
  c10::SmallVector<Operand, 6> operands_;
};

// The same bytes; owns no memory. `written`: those of a lazy copy become its own.
at::Tensor host_alias(const at::Tensor& device, bool written);

enum class Fill { kContents, kNothing };

// A tensor of that device with the shape and, where it lies in control memory, the contents of the
// host's. Throws c10::NotImplementedError where that is not dense.
at::Tensor to_device(const at::Tensor& host, c10::Device device, Fill fill);

}  // namespace warpserve::torch_ops
