#include "cuda_shim/entry/host_operators.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

namespace warpserve::gpu {
namespace {

constexpr std::string_view kMessage =
    "warpserve: torch runs without the operators that compute control memory on a virtual GPU, so "
    "what kernels should have written there is unknown. They are loaded at the end of `import "
    "torch` unless Python ignores PYTHONPATH (-I, -E) or TORCH_DEVICE_BACKEND_AUTOLOAD is 0: see "
    "docs/limitations.md\n";

std::atomic<bool> settled = false;

bool torch_is_loaded() {
  void* const torch = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch != nullptr) dlclose(torch);
  return torch != nullptr;
}

}  // namespace

void announce_host_operators() {
  settled.store(true, std::memory_order_relaxed);
}

void check_host_operators() {
  if (settled.load(std::memory_order_relaxed) || settled.exchange(true)) return;
  if (!torch_is_loaded()) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
}

}  // namespace warpserve::gpu
