#include "cuda_shim/memory/range_allocator.hpp"

#include <iterator>

namespace warpserve::gpu {

std::optional<Address> RangeAllocator::take(std::uint64_t bytes, std::uint64_t alignment) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const Address base = range->first;
    const Address end = base + range->second;
    const Address from = round_up(base, alignment);
    if (from >= end || end - from < bytes) continue;
    free_.erase(range);
    if (from > base) free_.emplace(base, from - base);
    if (end > from + bytes) free_.emplace(from + bytes, end - from - bytes);
    free_bytes_ -= bytes;
    return from;
  }
  return std::nullopt;
}

void RangeAllocator::give(Address base, std::uint64_t bytes) {
  free_bytes_ += bytes;
  const auto next = free_.lower_bound(base);
  if (next != free_.end() && base + bytes == next->first) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(base);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == base) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(base, bytes);
}

}  // namespace warpserve::gpu
