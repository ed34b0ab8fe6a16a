#include "cuda_shim/memory/directory.hpp"

#include <execinfo.h>

namespace warpserve::gpu {
namespace {

std::unique_ptr<Origin> capture_origin() {
  auto origin = std::make_unique<Origin>();
  backtrace(origin->data(), static_cast<int>(origin->size()));
  return origin;
}

}  // namespace

Allocation& Directory::add(Address base, std::uint64_t bytes, MemoryKind kind, int device,
                           Residency residency) {
  Allocation& allocation = allocations_[base];
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.device = device;
  allocation.residency = residency;
  allocation.number = ++count_;
  if (residency == Residency::kCompute) allocation.origin = capture_origin();
  return allocation;
}

const Allocation* Directory::find(Address address) const {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second;
  return address < candidate.end() ? &candidate : nullptr;
}

const Allocation* Directory::next_after(Address address) const {
  const auto after = allocations_.upper_bound(address);
  return after == allocations_.end() ? nullptr : &after->second;
}

bool Directory::overlaps(Address base, std::uint64_t bytes) const {
  if (find(base) != nullptr) return true;
  const Allocation* const next = next_after(base);
  return next != nullptr && next->base - base < bytes;
}

}  // namespace warpserve::gpu
