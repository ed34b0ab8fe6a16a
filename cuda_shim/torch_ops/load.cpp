// What the members' Python calls, through ctypes.
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>

#include "cuda_shim/torch_ops/kernel.hpp"
#include "cuda_shim/torch_ops/operators.hpp"
#include "cuda_shim/torch_ops/outside.hpp"
#include "cuda_shim/torch_ops/registration.hpp"
#include "cuda_shim/torch_ops/tally.hpp"
#include "cuda_shim/warpserve_gpu.h"

using namespace warpserve::torch_ops;

namespace {

bool is_of_pytorch(const c10::OperatorName& name) {
  return name.name.starts_with("aten::");
}

}  // namespace

extern "C" {

// From now on operators on control memory are computed. Returns how many operators that are.
// Called once.
[[gnu::visibility("default")]] int warpserve_torch_ops_load() {
  watch_other_libraries();
  int count = 0;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!is_of_pytorch(name)) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op) continue;
    const auto treatment = treatment_of(*op);
    if (!treatment) continue;
    register_kernel(
        *op, c10::DispatchKey::CUDA,
        std::make_unique<HostKernel>(op->getComputedKernelForDispatchKey(c10::DispatchKey::CUDA),
                                     *treatment, new_tally(name.name)));
    if (treatment->execution == Execution::kComputed) ++count;
  }
  ws_gpu_announce_host_operators();
  return count;
}

// Calls `each` for every operator that left control memory as it was, with how often that was
// because it read compute memory, and because it can't be executed on the CPU.
[[gnu::visibility("default")]] void warpserve_torch_ops_unknown(
    void (*each)(const char* name, std::uint64_t from_compute_memory, std::uint64_t not_computed)) {
  for_each_tally([each](const Tally& tally) {
    each(tally.name().c_str(), tally.from_compute_memory(), tally.not_computed());
  });
}

}  // extern "C"
