#include "cuda_shim/torch_ops/registration.hpp"

#include <optional>

namespace warpserve::torch_ops {
namespace {

// PyTorch warns of replaced kernels; these are replaced on purpose.
class Silence final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

void register_kernel(const c10::OperatorHandle& op, c10::DispatchKey key,
                     c10::KernelFunction kernel) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  auto registration = c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), key, std::move(kernel), std::nullopt, nullptr, "warpserve");
  // Taken back at its destruction, which never comes.
  std::make_unique<c10::RegistrationHandleRAII>(std::move(registration)).release();
}

}  // namespace warpserve::torch_ops
