// What a range of addresses that a program names consists of.
#pragma once

#include <cstdint>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/directory.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

// A range in one place: host memory, one allocation, or mappings side by side.
struct Range {
  MemoryKind kind = MemoryKind::kUnregistered;
  int device = kNoDevice;             // kNoDevice for host memory
  const Allocation* first = nullptr;  // what it begins in; null for unregistered memory
};

// kInvalidPointer where nothing is, or nobody may access it; kOutOfBounds where it runs over its
// allocation's end. Host memory is trusted to be there, as the real driver does.
Result<Range> check_range(const Directory& directory, Address address, std::uint64_t bytes);

// The first part of a range that is of one kind. 0 bytes: nothing is there any more.
struct Piece {
  std::uint64_t bytes = 0;
  bool real = false;  // readable through the pointer
  const Allocation* allocation = nullptr;
};
Piece piece_at(const Directory& directory, Address address, std::uint64_t bytes);

inline MemoryKind kind_of(const Piece& piece) {
  return piece.allocation == nullptr ? MemoryKind::kUnregistered : piece.allocation->kind;
}

}  // namespace warpserve::gpu
