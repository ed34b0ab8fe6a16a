#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"

using namespace warpserve::gpu;

namespace {

// cudaPointerAttributes.
struct PointerAttributes {
  std::uint32_t type;
  std::int32_t device;
  void* device_pointer;
  void* host_pointer;
};

PointerAttributes attributes_of(void* address) {
  const Result<PointerInfo> info = process_memory().query(address_of(address));
  const MemoryKind kind = info.ok() ? info.value().kind : MemoryKind::kUnregistered;
  switch (kind) {
    case MemoryKind::kUnregistered:
      return {0, -2, nullptr, address};
    case MemoryKind::kPinned:
    case MemoryKind::kRegistered:
      return {kHostMemoryType, ordinal_of(info.value().device), address, address};
    case MemoryKind::kManaged:
      return {kManagedMemoryType, ordinal_of(info.value().device), address, address};
    default:
      return {kDeviceMemoryType, ordinal_of(info.value().device), address, nullptr};
  }
}

}  // namespace

std::uint32_t cudaPointerGetAttributes(void* attributes, const void* address) {
  return runtime_call([&] {
    require(attributes != nullptr);
    Process::get();
    *static_cast<PointerAttributes*>(attributes) = attributes_of(pointer(address_of(address)));
  });
}
