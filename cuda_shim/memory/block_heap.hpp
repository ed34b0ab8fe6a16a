// Allocations that share blocks: what cudaMalloc does with small ones, and pools with all.
#pragma once

#include <cstdint>
#include <map>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/device_space.hpp"
#include "cuda_shim/memory/range_allocator.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

// The driver rounds sizes to this (assumed; documented is an alignment of 256 bytes at least).
inline constexpr std::uint64_t kAllocationUnitBytes = 512;

class BlockHeap {
 public:
  // Grows by whole `block_bytes`, whole blocks of the device themselves.
  BlockHeap(DeviceSpace& space, Residency residency, std::uint64_t block_bytes)
      : space_(space), residency_(residency), block_bytes_(block_bytes) {}
  ~BlockHeap();
  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  // In units; `bytes` is not 0. `may_grow_by` is the most that it may acquire for it.
  Result<Address> allocate(std::uint64_t bytes, std::uint64_t may_grow_by = ~std::uint64_t{0});
  void free(Address address, std::uint64_t bytes);

  // Releases blocks that nothing is in, as long as at least `keep_bytes` stay reserved.
  void release_unused(std::uint64_t keep_bytes = 0);
  std::uint64_t reserved_bytes() const { return reserved_bytes_; }

 private:
  struct Block {
    std::uint64_t bytes;
    RangeAllocator ranges;
  };

  DeviceSpace& space_;
  const Residency residency_;
  const std::uint64_t block_bytes_;
  std::map<Address, Block> blocks_;
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace warpserve::gpu
