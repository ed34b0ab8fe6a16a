#include "cuda_shim/torch_ops/host_call.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_shim/torch_ops/arguments.hpp"
#include "cuda_shim/torch_ops/gpu.hpp"
#include "cuda_shim/torch_ops/host_generator.hpp"
#include "cuda_shim/torch_ops/tally.hpp"

namespace warpserve::torch_ops {
namespace {

const c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

bool is_gpu(const c10::IValue& value) {
  return value.isDevice() && value.toDevice().is_cuda();
}

// The arguments as the CPU's kernel is to see them.
Stack host_arguments(const Call& call, const Stack& arguments, Operands& operands) {
  const auto& schema = call.op.schema().arguments();
  Stack host;
  host.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = arguments[i];
    if (i == call.treatment.generator) {
      host.emplace_back(call.capturing ? captured_generator() : host_generator(value, call.device));
    } else if (is_gpu(value)) {
      host.emplace_back(c10::Device(c10::kCPU));
    } else {
      const bool written = is_written(schema[i]);
      host.push_back(map_tensors(value, [&](const at::Tensor& tensor) {
        return tensor.is_cuda() ? operands.host_of(tensor, written) : tensor;
      }));
    }
  }
  return host;
}

Stack take_arguments(const Call& call, const Stack& stack) {
  const auto count = static_cast<std::ptrdiff_t>(call.op.schema().arguments().size());
  return {stack.end() - count, stack.end()};
}

// Those that were arguments are the arguments again; the others are new.
Stack device_results(const Call& call, const Stack& host, const Operands& operands, Fill fill) {
  Stack results;
  results.reserve(host.size());
  for (const c10::IValue& value : host) {
    results.push_back(map_tensors(value, [&](const at::Tensor& tensor) {
      const at::Tensor* const argument = operands.device_of(tensor);
      return argument != nullptr ? *argument : to_device(tensor, call.device, fill);
    }));
  }
  return results;
}

void replace(Stack& stack, const Call& call, Stack results) {
  stack.resize(stack.size() - call.op.schema().arguments().size());
  stack.insert(stack.end(), std::make_move_iterator(results.begin()),
               std::make_move_iterator(results.end()));
}

// Executes with the given operands, and puts the results on the GPU.
Stack execute(const Call& call, const Stack& arguments, Operands& operands, Fill fill) {
  Stack host = host_arguments(call, arguments, operands);
  call.op.redispatchBoxed(kCpu, &host);
  operands.adopt_shapes();
  return device_results(call, host, operands, fill);
}

// A call that waits for its turn.
class Deferred {
 public:
  // `results` are on the GPU, in the shape that the call gives them.
  Deferred(const Call& call, const Stack& arguments, const Stack& results)
      : op_(call.op), results_(aliases_of_new(arguments, results)) {
    Operands operands(Operands::Mode::kSame);
    arguments_ = host_arguments(call, arguments, operands);
    // As on a GPU, what the CPU owns is read before the call returns.
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      arguments_[i] = map_tensors(arguments_[i], [&](const at::Tensor& tensor) {
        return operands.device_of(tensor) != nullptr ? tensor : tensor.clone();
      });
    }
  }

  void run() const noexcept {
    try {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      Stack stack = arguments_;
      op_.redispatchBoxed(kCpu, &stack);
      auto target = results_.begin();
      for (const c10::IValue& value : stack) {
        for_each_tensor(value, [&](const at::Tensor& tensor) {
          const at::Tensor& result = *target++;
          if (result.defined()) result.copy_(tensor);
        });
      }
    } catch (const std::exception& error) {
      const bool is_of_index = dynamic_cast<const c10::IndexError*>(&error) != nullptr;
      if (is_of_index && something_is_unknown()) return;
      std::fprintf(stderr, "warpserve: %s failed in its stream's order: %s\n",
                   op_.operator_name().name.c_str(), error.what());
      std::terminate();
    }
  }

 private:
  // In order; undefined where a result is an argument, which the kernel writes itself, or lies in
  // compute memory.
  static std::vector<at::Tensor> aliases_of_new(const Stack& arguments, const Stack& results) {
    const auto is_argument = [&](const at::Tensor& result) {
      bool found = false;
      for (const c10::IValue& value : arguments) {
        for_each_tensor(value, [&](const at::Tensor& tensor) { found |= tensor.is_same(result); });
      }
      return found;
    };
    std::vector<at::Tensor> aliases;
    for (const c10::IValue& value : results) {
      for_each_tensor(value, [&](const at::Tensor& result) {
        const bool fill = !is_argument(result) && is_control(result);
        aliases.push_back(fill ? host_alias(result, /*written=*/true) : at::Tensor());
      });
    }
    return aliases;
  }

  const c10::OperatorHandle op_;
  const std::vector<at::Tensor> results_;
  Stack arguments_;
};

}  // namespace

void compute(const Call& call, Stack& stack) {
  Operands operands(Operands::Mode::kSame);
  replace(stack, call, execute(call, take_arguments(call, stack), operands, Fill::kContents));
}

void compute_in_order(const Call& call, void* stream, Stack& stack) {
  const Stack arguments = take_arguments(call, stack);
  // What a graph is made of is not executed until its launch, so nobody uses its memory yet, and
  // what comes next may need an index that makes sense. Else memory may still be another's.
  const Fill fill = call.capturing ? Fill::kContents : Fill::kNothing;
  Operands scratch(Operands::Mode::kScratch);
  Stack results = execute(call, arguments, scratch, fill);
  auto deferred = std::make_unique<Deferred>(call, arguments, results);
  const int error = ws_gpu_enqueue_effect(
      stream, [](void* self) { static_cast<const Deferred*>(self)->run(); },
      [](void* self) { std::default_delete<Deferred>()(static_cast<Deferred*>(self)); },
      deferred.release());
  TORCH_CHECK(error == 0, "warpserve: ", call.op.operator_name(),
              " could not join its stream: ", "cudaError_t ", error);
  replace(stack, call, std::move(results));
}

}  // namespace warpserve::torch_ops
