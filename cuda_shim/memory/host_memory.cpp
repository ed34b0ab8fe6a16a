#include "cuda_shim/memory/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {

Result<Address> HostMemory::allocate(int device, std::uint64_t bytes, std::uint32_t flags) {
  const std::lock_guard lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  if (bytes == 0) return Address{0};
  const std::uint64_t limit = state_.options.host_memory_bytes;
  if (bytes > limit) return MemoryStatus::kOutOfMemory;
  const std::uint64_t mapped = round_up(bytes, kPageBytes);
  if (!state_.account.charge(kHostColumn, mapped, limit)) return MemoryStatus::kOutOfMemory;
  void* const at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    state_.account.give_back(kHostColumn, mapped);
    return MemoryStatus::kOutOfMemory;
  }
  state_.directory.add(address_of(at), bytes, MemoryKind::kPinned, device, Residency::kControl)
      .flags = flags;
  return address_of(at);
}

MemoryStatus HostMemory::free(Address address) {
  if (address == 0) return MemoryStatus::kOk;
  const std::lock_guard lock(state_.mutex);
  const auto found = state_.directory.find_base(address, MemoryKind::kPinned);
  if (found == state_.directory.end()) return MemoryStatus::kInvalidPointer;
  const std::uint64_t mapped = round_up(found->second.bytes, kPageBytes);
  munmap(pointer(address), mapped);
  state_.account.give_back(kHostColumn, mapped);
  state_.directory.remove(found);
  return MemoryStatus::kOk;
}

MemoryStatus HostMemory::register_range(int device, Address address, std::uint64_t bytes,
                                        std::uint32_t flags) {
  if (address == 0 || bytes == 0 || bytes > ~address) return MemoryStatus::kInvalidValue;
  const std::lock_guard lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  if (is_reserved_address(address) || is_reserved_address(address + bytes - 1)) {
    return MemoryStatus::kInvalidValue;
  }
  if (state_.directory.overlaps(address, bytes)) return MemoryStatus::kAlreadyRegistered;
  if (!state_.account.charge(kHostColumn, bytes, state_.options.host_memory_bytes)) {
    return MemoryStatus::kOutOfMemory;
  }
  state_.directory.add(address, bytes, MemoryKind::kRegistered, device, Residency::kControl).flags =
      flags;
  return MemoryStatus::kOk;
}

MemoryStatus HostMemory::unregister(Address address) {
  const std::lock_guard lock(state_.mutex);
  const auto found = state_.directory.find_base(address, MemoryKind::kRegistered);
  if (found == state_.directory.end()) return MemoryStatus::kNotRegistered;
  state_.account.give_back(kHostColumn, found->second.bytes);
  state_.directory.remove(found);
  return MemoryStatus::kOk;
}

Result<Address> HostMemory::allocate_managed(int device, std::uint64_t bytes, std::uint32_t flags) {
  const std::lock_guard lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  const std::uint64_t limit = state_.options.host_memory_bytes;
  if (bytes == 0) return MemoryStatus::kInvalidValue;
  if (bytes > limit) return MemoryStatus::kOutOfMemory;
  DeviceSpace& space = state_.device(device).space;
  const std::uint64_t rounded = round_up(bytes, space.block_bytes());
  if (!state_.account.charge(kHostColumn, rounded, limit)) return MemoryStatus::kOutOfMemory;
  const Address address = space.take_addresses(rounded);
  if (address == 0 || space.make_control(address, rounded) != MemoryStatus::kOk) {
    if (address != 0) space.give_addresses(address, rounded);
    state_.account.give_back(kHostColumn, rounded);
    return MemoryStatus::kOutOfMemory;
  }
  state_.directory.add(address, bytes, MemoryKind::kManaged, device, Residency::kControl).flags =
      flags;
  return address;
}

void HostMemory::free_managed(const Allocation& allocation) {
  DeviceSpace& space = state_.device(allocation.device).space;
  const std::uint64_t rounded = round_up(allocation.bytes, space.block_bytes());
  map_nothing(allocation.base, rounded);
  punch_hole(space.file_range(allocation.base), rounded);
  space.give_addresses(allocation.base, rounded);
  state_.account.give_back(kHostColumn, rounded);
}

bool HostMemory::covers(Address address, std::uint64_t bytes) const {
  const std::shared_lock lock(state_.mutex);
  const Allocation* const found = state_.directory.find(address);
  return found != nullptr && is_host(found->kind) && bytes <= found->end() - address;
}

}  // namespace warpserve::gpu
