// Addresses and physical memory apart (cuMemAddressReserve, cuMemCreate, cuMemMap): contents follow
// the physical memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

struct State;

struct PhysicalId {
  std::uint64_t value = 0;  // CUmemGenericAllocationHandle
  auto operator<=>(const PhysicalId&) const = default;
};

enum class Access : std::uint8_t { kNone = 0, kRead = 1, kReadWrite = 3 };

struct PhysicalInfo {
  int device = kNoDevice;
  std::uint64_t bytes = 0;
  bool exportable = false;
  Residency residency = Residency::kControl;
};

// Any thread may call anything.
class VirtualMemory {
 public:
  explicit VirtualMemory(State& state);
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  // Of sizes and addresses; the minimum and the recommended one.
  std::uint64_t granularity_bytes() const;

  // `alignment` 0 or a power of two. A wish for an address is not followed: real drivers need not.
  Result<Address> reserve(std::uint64_t bytes, std::uint64_t alignment = 0);
  // A whole reservation, in which nothing is mapped.
  MemoryStatus free_reservation(Address address, std::uint64_t bytes);

  // `device` kNoDevice: memory of the host, which counts as pinned.
  Result<PhysicalId> create(int device, std::uint64_t bytes, bool exportable = false);
  // One use of the handle less. The memory stays as long as it is mapped.
  MemoryStatus release(PhysicalId physical);
  // The memory that is mapped there; one use more.
  Result<PhysicalId> retain(Address address);
  Result<PhysicalInfo> info(PhysicalId physical) const;

  // Maps the physical memory, all of it (CUDA knows no other way), into reserved addresses. Nobody
  // may access them yet.
  MemoryStatus map(Address address, std::uint64_t bytes, PhysicalId physical);
  // A range of whole mappings.
  MemoryStatus unmap(Address address, std::uint64_t bytes);
  // For a range of whole mappings. `device` kNoDevice: the host's access to its own memory.
  MemoryStatus set_access(Address address, std::uint64_t bytes, int device, Access access);
  Result<Access> access(Address address, int device) const;

  // A descriptor of the caller's, which another process can import, whether or not this one still
  // lives then.
  Result<int> export_descriptor(PhysicalId physical) const;
  // The descriptor stays the caller's. The memory counts where it was created.
  Result<PhysicalId> import_descriptor(int descriptor);

 private:
  struct Physical;
  struct Handle {
    std::shared_ptr<Physical> physical;
    std::uint64_t uses = 0;
  };
  struct Mapping {
    std::shared_ptr<Physical> physical;
    std::map<int, Access> access;  // by device
  };
  friend class Memory;

  // With the state's mutex held:
  bool whole_mappings(Address address, std::uint64_t bytes) const;
  bool in_one_reservation(Address address, std::uint64_t bytes) const;
  void unmap_one(std::map<Address, Mapping>::iterator mapping);
  void reset(int device);

  State& state_;
  std::map<Address, std::uint64_t> reservations_;
  std::map<PhysicalId, Handle> handles_;
  std::map<Address, Mapping> mappings_;
  std::uint64_t next_ = 1;
};

}  // namespace warpserve::gpu
