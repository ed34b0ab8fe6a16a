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

namespace {

// Registering part of host memory does not end it; mappings go on in the next one.
bool goes_on(MemoryKind from, MemoryKind to) {
  const auto is_of_host = [](MemoryKind kind) {
    return kind == MemoryKind::kUnregistered || kind == MemoryKind::kRegistered;
  };
  return (is_of_host(from) && is_of_host(to)) ||
         (from == MemoryKind::kMapped && to == MemoryKind::kMapped);
}

}  // namespace

Result<Range> check_range(const Directory& directory, Address address, std::uint64_t bytes) {
  if (bytes > ~address) return MemoryStatus::kOutOfBounds;
  Piece piece = piece_at(directory, address, bytes);
  if (address == 0 || (piece.allocation == nullptr && !piece.real)) {
    return MemoryStatus::kInvalidPointer;
  }
  const Range range{.kind = kind_of(piece),
                    .device = is_host(kind_of(piece)) ? kNoDevice : piece.allocation->device,
                    .first = piece.allocation};
  const Address end = address + bytes;
  for (Address at = address + piece.bytes;; at += piece.bytes) {
    if (piece.allocation != nullptr && !piece.allocation->accessible) {
      return MemoryStatus::kInvalidPointer;
    }
    if (at == end) break;
    piece = piece_at(directory, at, end - at);
    if (piece.bytes == 0 || !goes_on(range.kind, kind_of(piece))) {
      return MemoryStatus::kOutOfBounds;
    }
  }
  // Host memory that would reach into addresses of ours where nothing is.
  if (bytes > 0 && piece.allocation == nullptr && is_reserved_address(end - 1)) {
    return MemoryStatus::kOutOfBounds;
  }
  return range;
}

}  // namespace warpserve::gpu
