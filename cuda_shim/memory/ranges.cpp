#include "cuda_shim/memory/ranges.hpp"

#include <algorithm>

#include "cuda_shim/memory/arena.hpp"

namespace warpserve::gpu {

Piece piece_at(const Directory& directory, Address address, std::uint64_t bytes) {
  if (const Allocation* const found = directory.find(address)) {
    return {std::min(bytes, found->end() - address),
            found->residency == Residency::kControl && found->accessible, found};
  }
  if (is_reserved_address(address)) return {};
  const Allocation* const next = directory.next_after(address);
  return {next == nullptr ? bytes : std::min(bytes, next->base - address), true, nullptr};
}

Result<Range> check_range(const Directory& directory, Address address, std::uint64_t bytes) {
  if (bytes > ~address) return MemoryStatus::kOutOfBounds;
  const Allocation* const first = directory.find(address);
  if (first == nullptr && (address == 0 || is_reserved_address(address))) {
    return MemoryStatus::kInvalidPointer;
  }
  const Range range = first == nullptr
                          ? Range{}
                          : Range{first->kind, is_host(first->kind) ? kNoDevice : first->device};
  const Address end = address + bytes;
  for (Address at = address; at < end;) {
    const Piece piece = piece_at(directory, at, end - at);
    const MemoryKind kind =
        piece.allocation == nullptr ? MemoryKind::kUnregistered : piece.allocation->kind;
    if (piece.allocation != nullptr && !piece.allocation->accessible) {
      return MemoryStatus::kInvalidPointer;
    }
    // Registering part of host memory does not end it; mappings go on in the next one.
    const bool host = kind == MemoryKind::kUnregistered || kind == MemoryKind::kRegistered;
    const bool began_in_host =
        range.kind == MemoryKind::kUnregistered || range.kind == MemoryKind::kRegistered;
    const bool goes_on = at == address || (host && began_in_host) ||
                         (kind == MemoryKind::kMapped && range.kind == MemoryKind::kMapped);
    if (piece.bytes == 0 || !goes_on) return MemoryStatus::kOutOfBounds;
    at += piece.bytes;
  }
  if (bytes > 0 && first == nullptr && is_reserved_address(end - 1)) {
    return MemoryStatus::kOutOfBounds;
  }
  return range;
}

}  // namespace warpserve::gpu
