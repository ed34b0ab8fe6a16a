#include "cuda_shim/torch_ops/outside.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_shim/torch_ops/placement.hpp"
#include "cuda_shim/torch_ops/registration.hpp"
#include "cuda_shim/torch_ops/tally.hpp"

namespace warpserve::torch_ops {
namespace {

using torch::jit::Stack;

// PyTorch's own that it defines later, when their modules are imported: they are made of others.
constexpr auto kLaterNamespaces =
    std::to_array<std::string_view>({"debugprims", "fsdp", "inductor", "prims", "rngprims"});
// PyTorch's own with kernels like another library's.
constexpr std::string_view kSymmetricMemory = "symm_mem";

std::string_view namespace_of(const c10::OperatorName& name) {
  const std::string_view full = name.name;
  return full.substr(0, full.find("::"));
}

// What is there at the end of PyTorch's import is its own, and made of operators of `aten`, or
// moves bytes with NCCL, or belongs to other devices.
std::set<std::string, std::less<>> own_namespaces() {
  std::set<std::string, std::less<>> own(kLaterNamespaces.begin(), kLaterNamespaces.end());
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    own.emplace(namespace_of(name));
  }
  own.erase(std::string(kSymmetricMemory));
  return own;
}

// Sees a call on its way to the kernel of the device.
class Observer final : public c10::OperatorKernel {
 public:
  explicit Observer(Tally& tally) : tally_(tally) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                                                                 c10::DispatchKey::BackendSelect);
    const Placed placed = place(op.schema(), *stack);
    const bool on_gpu = placed.device && placed.placement != Placement::kForeign &&
                        op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
    if (!on_gpu) return op.redispatchBoxed(below, stack);
    const Stack written = written_arguments(op.schema(), *stack);
    op.redispatchBoxed(below, stack);
    if (leaves_unknown(op.schema(), written, *stack)) tally_.add_not_computed();
  }

 private:
  Tally& tally_;
};

void watch(const c10::OperatorName& name) {
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect)) return;
  register_kernel(*op, c10::DispatchKey::BackendSelect,
                  std::make_unique<Observer>(new_tally(name.name)));
}

// What was defined and is not watched yet: while an operator is being defined, kernels can't be
// registered.
class NewOperators final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    if (own_.contains(namespace_of(op.operator_name()))) return;
    const std::lock_guard lock(mutex_);
    names_.push_back(op.operator_name());
    any_.store(true, std::memory_order_release);
  }
  void onOperatorDeregistered(const c10::OperatorHandle&) override {}

  std::vector<c10::OperatorName> take() {
    if (!any_.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(mutex_);
    any_.store(false);
    return std::exchange(names_, {});
  }

 private:
  const std::set<std::string, std::less<>> own_ = own_namespaces();
  std::mutex mutex_;
  std::vector<c10::OperatorName> names_;
  std::atomic<bool> any_ = false;
};

// Owned by the dispatcher from the first watch on.
NewOperators* new_operators = nullptr;

}  // namespace

void watch_other_libraries() {
  auto listener = std::make_unique<NewOperators>();
  new_operators = listener.get();
  // Told at once of all that is there.
  auto registration = c10::Dispatcher::singleton().addRegistrationListener(std::move(listener));
  std::make_unique<c10::RegistrationHandleRAII>(std::move(registration)).release();
  watch_new_operators();
}

void watch_new_operators() {
  for (const c10::OperatorName& name : new_operators->take()) watch(name);
}

}  // namespace warpserve::torch_ops
