#include "cuda_shim/memory/block_heap.hpp"

#include <iterator>
#include <utility>

namespace warpserve::gpu {

BlockHeap::~BlockHeap() {
  for (const auto& [base, block] : blocks_) space_.release(base, block.bytes, residency_);
}

Result<Address> BlockHeap::allocate(std::uint64_t bytes, std::uint64_t may_grow_by) {
  const std::uint64_t rounded = round_up(bytes, kAllocationUnitBytes);
  for (auto& [base, block] : blocks_) {
    if (block.ranges.free_bytes() < rounded) continue;
    if (const auto address = block.ranges.take(rounded, kAllocationUnitBytes)) return *address;
  }
  // Near the end of the memory, by no more than it takes.
  for (const std::uint64_t growth :
       {round_up(rounded, block_bytes_), round_up(rounded, space_.block_bytes())}) {
    if (growth > may_grow_by) continue;
    const Result<Address> base = space_.acquire(growth, residency_);
    if (!base.ok()) continue;
    reserved_bytes_ += growth;
    Block block{growth, RangeAllocator(base.value(), growth)};
    const Address address = block.ranges.take(rounded, kAllocationUnitBytes).value();
    blocks_.emplace(base.value(), std::move(block));
    return address;
  }
  return MemoryStatus::kOutOfMemory;
}

void BlockHeap::free(Address address, std::uint64_t bytes) {
  Block& block = std::prev(blocks_.upper_bound(address))->second;
  block.ranges.give(address, round_up(bytes, kAllocationUnitBytes));
}

void BlockHeap::release_unused(std::uint64_t keep_bytes) {
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    const Block& block = it->second;
    const bool unused = block.ranges.free_bytes() == block.bytes;
    if (!unused || reserved_bytes_ - block.bytes < keep_bytes) {
      ++it;
      continue;
    }
    space_.release(it->first, block.bytes, residency_);
    reserved_bytes_ -= block.bytes;
    it = blocks_.erase(it);
  }
}

}  // namespace warpserve::gpu
