// Random numbers of a GPU, drawn on the CPU.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

namespace warpserve::torch_ops {

// A generator of the CPU that follows from the state of the GPU's, which moves on. `given` is the
// argument of the operator: nothing means the default generator of the device.
at::Generator host_generator(const c10::IValue& given, c10::Device device);

// The same while a stream captures, when nobody may ask for the GPU's state: one that a graph goes
// on with from replay to replay, and that does not depend on the seed.
at::Generator captured_generator();

}  // namespace warpserve::torch_ops
