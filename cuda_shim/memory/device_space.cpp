#include "cuda_shim/memory/device_space.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>

namespace warpserve::gpu {

void punch_hole(const FileRange& range, std::uint64_t bytes) {
  fallocate(range.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.offset),
            static_cast<off_t>(bytes));
}

DeviceSpace::DeviceSpace(int device, std::uint64_t capacity_bytes, std::uint64_t granularity_bytes,
                         std::uint64_t arena_bytes, Account& account)
    : device_(device),
      capacity_bytes_(capacity_bytes),
      block_bytes_(std::max(granularity_bytes, kPageBytes)),
      account_(account),
      addresses_(device, arena_bytes) {}

Result<Address> DeviceSpace::acquire(std::uint64_t bytes, Residency residency) {
  if (!charge(bytes)) return MemoryStatus::kOutOfMemory;
  const Address address = take_addresses(bytes);
  if (address == 0) {
    give_back(bytes);
    return MemoryStatus::kOutOfMemory;
  }
  if (residency == Residency::kControl && make_control(address, bytes) != MemoryStatus::kOk) {
    release(address, bytes, Residency::kCompute);
    return MemoryStatus::kOutOfMemory;
  }
  return address;
}

void DeviceSpace::release(Address address, std::uint64_t bytes, Residency residency) {
  if (residency == Residency::kControl) {
    map_nothing(address, bytes);
    punch_hole(file_range(address), bytes);
  }
  give_addresses(address, bytes);
  give_back(bytes);
}

MemoryStatus DeviceSpace::make_control(Address address, std::uint64_t bytes) {
  const FileRange range = file_range(address);
  return map_file(address, bytes, range.fd, range.offset, PROT_READ | PROT_WRITE)
             ? MemoryStatus::kOk
             : MemoryStatus::kOutOfMemory;
}

}  // namespace warpserve::gpu
