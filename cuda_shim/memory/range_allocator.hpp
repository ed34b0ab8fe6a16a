// Which parts of a range of addresses are free. First fit, lowest address first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "cuda_shim/memory/allocation.hpp"

namespace warpserve::gpu {

class RangeAllocator {
 public:
  RangeAllocator(Address base, std::uint64_t bytes) : free_{{base, bytes}}, free_bytes_(bytes) {}

  // `alignment` is a power of two.
  std::optional<Address> take(std::uint64_t bytes, std::uint64_t alignment);
  // What was taken, or a part of it.
  void give(Address base, std::uint64_t bytes);

  std::uint64_t free_bytes() const { return free_bytes_; }

 private:
  std::map<Address, std::uint64_t> free_;  // base, bytes; not adjacent
  std::uint64_t free_bytes_;
};

}  // namespace warpserve::gpu
