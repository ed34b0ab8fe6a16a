#include "cuda_shim/nccl/settings.hpp"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

namespace warpserve::gpu::nccl {
namespace {

// They choose algorithms, protocols, channels or links.
constexpr const char* kIgnored[] = {"NCCL_ALGO",          "NCCL_PROTO",       "NCCL_TUNER_PLUGIN",
                                    "NCCL_TOPO_FILE",     "NCCL_GRAPH_FILE",  "NCCL_P2P_DISABLE",
                                    "NCCL_P2P_LEVEL",     "NCCL_SHM_DISABLE", "NCCL_MIN_NCHANNELS",
                                    "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS",    "NCCL_MAX_CTAS",
                                    "NCCL_NTHREADS",      "NCCL_BUFFSIZE",    "NCCL_CTA_POLICY"};

bool is(const char* variable, std::string_view expected) {
  const char* const value = std::getenv(variable);
  return value != nullptr && value == expected;
}

}  // namespace

bool allows_in_network_reduction() {
  return !is("NCCL_NVLS_ENABLE", "0") && !is("NCCL_CUMEM_ENABLE", "0");
}

bool other_ranks_are_ghosts() {
  return is("WARPSERVE_GHOST_RANKS", "1");
}

void warn_of_ignored_settings() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::string set;
    for (const char* variable : kIgnored) {
      if (std::getenv(variable) != nullptr)
        set += (set.empty() ? "" : ", ") + std::string(variable);
    }
    if (set.empty()) return;
    const std::string line = "warpserve: NCCL: warning: " + set +
                             " would change the time of operations on real GPUs, and does not here "
                             "(docs/virtual-gpu.md)\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  });
}

}  // namespace warpserve::gpu::nccl
