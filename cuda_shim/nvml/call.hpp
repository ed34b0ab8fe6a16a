// For the files of cuda_shim/nvml/: the prototypes, exported, and how calls are entered and left.
// NVML has codes of its own, sees all devices of the machine, and needs no CUDA.
#pragma once

#pragma GCC visibility push(default)
#include "nvml.hpp"
#pragma GCC visibility pop

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "cuda_shim/device/profile.hpp"
#include "cuda_shim/memory/memory.hpp"

namespace warpserve::gpu::nvml {

enum class Code : std::uint32_t {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kUnknown = 999,
};

struct Failure {
  Code code;
};

inline void require(bool condition, Code code = Code::kInvalidArgument) {
  if (!condition) throw Failure{code};
}

void initialize();
void shut_down();
// Throws Failure(kUninitialized).
const Machine& machine();

// Handles are addresses of the machine's profiles. Throws Failure(kInvalidArgument).
int index_of(void* device);
void* handle_of(int index);
inline const DeviceProfile& profile_of(void* device) {
  return machine().device(index_of(device));
}
// What all devices have in common, once the handle is known to be one.
inline const GpuKind& kind_of(void* device) {
  index_of(device);
  return machine().gpu();
}

// Throws Failure(kInsufficientSize).
void copy_text(char* out, std::uint32_t capacity, const std::string& text);

template <class T>
void answer(T* out, T value) {
  require(out != nullptr);
  *out = value;
}

Code code_of_current_exception() noexcept;

template <class Body>
std::uint32_t call(const Body& body) noexcept {
  try {
    body();
    return static_cast<std::uint32_t>(Code::kSuccess);
  } catch (...) {
    return static_cast<std::uint32_t>(code_of_current_exception());
  }
}

// nvmlPciInfo_t.
struct PciInfo {
  char legacy_bus_id[16];
  std::uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
PciInfo pci_info(int index);

}  // namespace warpserve::gpu::nvml
