// All allocations of the process, by address.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

#include "cuda_shim/memory/allocation.hpp"

namespace warpserve::gpu {

// Ranges do not overlap. Calls are serialised by the state's mutex.
class Directory {
 public:
  using Map = std::map<Address, Allocation>;
  using Iterator = Map::iterator;

  // Gives it its number. The range is free of others.
  Allocation& add(Address base, std::uint64_t bytes, MemoryKind kind, int device,
                  Residency residency);
  void remove(Iterator allocation) { allocations_.erase(allocation); }

  // What begins there, of one of these kinds; else end().
  template <class... Kinds>
  Iterator find_base(Address base, Kinds... kinds) {
    const Iterator found = allocations_.find(base);
    return found != end() && ((found->second.kind == kinds) || ...) ? found : end();
  }
  // What the address is in; null where nothing is.
  const Allocation* find(Address address) const;
  // The lowest one that begins after the address; null where there is none.
  const Allocation* next_after(Address address) const;
  bool overlaps(Address base, std::uint64_t bytes) const;

  bool empty() const { return allocations_.empty(); }
  Iterator begin() { return allocations_.begin(); }
  Iterator end() { return allocations_.end(); }

 private:
  Map allocations_;
  std::uint64_t count_ = 0;
};

}  // namespace warpserve::gpu
