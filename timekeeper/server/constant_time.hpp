// Comparison of secrets whose duration says nothing about where they differ.
#pragma once

#include <cstddef>
#include <span>

namespace warpserve {

inline bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace warpserve
