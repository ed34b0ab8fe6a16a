// Host memory that the GPUs know: pinned, registered, managed. None of it is populated by that.
#pragma once

#include <cstdint>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

struct State;

// Any thread may call anything.
class HostMemory {
 public:
  explicit HostMemory(State& state) : state_(state) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Zeroed. `flags` (mapped, portable, write-combined …) are kept for who asks.
  Result<Address> allocate(int device, std::uint64_t bytes, std::uint32_t flags);
  // kInvalidPointer for what `allocate` did not give.
  MemoryStatus free(Address address);

  MemoryStatus register_range(int device, Address address, std::uint64_t bytes,
                              std::uint32_t flags);
  // By its first address.
  MemoryStatus unregister(Address address);

  // Counts as host memory: a real GPU pages it in and out. Freed with Memory::free.
  Result<Address> allocate_managed(int device, std::uint64_t bytes, std::uint32_t flags);

  // Pinned or registered, all of it: populating it in advance (MADV_POPULATE_WRITE) would only cost
  // pages, as nothing of the GPU needs them to be there.
  bool covers(Address address, std::uint64_t bytes) const;

 private:
  friend class Memory;
  // With the state's mutex held.
  void free_managed(const Allocation& allocation);

  State& state_;
};

}  // namespace warpserve::gpu
