#include "cuda_shim/memory/state.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "timekeeper/preload/warpserve.h"

namespace warpserve::gpu {
namespace {

constexpr const char* kAccountFile = "gpu-memory";

void read_variable(const char* variable, std::uint64_t& value) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error == std::errc() && rest == end) return;
  throw MemoryError(std::string(variable) + " is '" + text + "': give a number of bytes.");
}

}  // namespace

MemoryOptions MemoryOptions::of_process() {
  MemoryOptions options;
  read_variable(kControlThresholdVariable, options.control_threshold_bytes);
  read_variable(kHostMemoryVariable, options.host_memory_bytes);
  const auto folder =
      reinterpret_cast<decltype(ws_session_folder)*>(dlsym(RTLD_DEFAULT, "ws_session_folder"));
  if (folder != nullptr && *folder() != '\0') {
    options.account_path = std::string(folder()) + "/" + kAccountFile;
  }
  return options;
}

DeviceState::DeviceState(int number, const GpuKind& gpu, const MemoryOptions& options,
                         Account& account)
    : space(number, gpu.memory_usable_bytes, gpu.allocation_granularity_bytes, options.arena_bytes,
            account),
      small_control(space, Residency::kControl, space.block_bytes()),
      small_compute(space, Residency::kCompute, space.block_bytes()) {}

State::State(const Machine& machine_of_session, MemoryOptions chosen)
    : machine(machine_of_session),
      options(std::move(chosen)),
      account(options.account_path),
      virtual_addresses(kNoDevice, options.arena_bytes) {
  if (machine.device_count() > kMaxDevices) {
    throw MemoryError("A session has at most " + std::to_string(kMaxDevices) + " GPUs.");
  }
  for (int i = 0; i < machine.device_count(); ++i) {
    devices.push_back(std::make_unique<DeviceState>(i, machine.gpu(), options, account));
  }
  // Its first call loads a library, which must not happen while an allocation is under way.
  void* frame = nullptr;
  backtrace(&frame, 1);
}

}  // namespace warpserve::gpu
