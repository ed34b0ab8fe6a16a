// Reserved addresses, and a memory file from which pages are put behind them.
//
// The byte of the file that stands behind an address is always the same one, so what another
// process needs in order to map the same bytes is the file and an offset.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/export_board.hpp"
#include "cuda_shim/memory/file_descriptor.hpp"
#include "cuda_shim/memory/range_allocator.hpp"

namespace warpserve::gpu {

inline constexpr std::uint64_t kPageBytes = 4096;

// Pages of a file in place of what was at these addresses of ours, all of them in one arena, and
// whole pages. False, with a message, where the host refuses.
[[nodiscard]] bool map_file(Address address, std::uint64_t bytes, int fd, std::uint64_t offset,
                            int protection);
// No pages any more: an access is a fault.
void map_nothing(Address address, std::uint64_t bytes);

// What lies behind an address.
struct FileRange {
  int fd = -1;
  std::uint64_t offset = 0;
};

// A piece of address space.
class Arena {
 public:
  // Null where the host has no such range of addresses.
  static std::unique_ptr<Arena> reserve(int device, std::uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Address base() const { return base_; }
  Address end() const { return base_ + bytes_; }
  bool contains(Address address) const { return address >= base_ && address < end(); }
  RangeAllocator& ranges() { return ranges_; }
  FileRange file_range(Address address) const { return {file_.get(), address - base_}; }
  ExportBoard& board() { return board_; }

 private:
  Arena(Address base, std::uint64_t bytes, FileDescriptor file)
      : base_(base),
        bytes_(bytes),
        file_(std::move(file)),
        ranges_(base, bytes),
        board_(file_.get(), bytes) {}

  const Address base_;
  const std::uint64_t bytes_;
  const FileDescriptor file_;
  RangeAllocator ranges_;
  ExportBoard board_;  // behind the bytes of the addresses
};

// The arenas of one device, as many as it takes.
class AddressSpace {
 public:
  // kNoDevice for the addresses of virtual memory.
  AddressSpace(int device, std::uint64_t arena_bytes)
      : device_(device), arena_bytes_(arena_bytes) {}

  // 0 where the host has no addresses left.
  Address take(std::uint64_t bytes, std::uint64_t alignment);
  void give(Address address, std::uint64_t bytes);
  // Null for addresses of others.
  Arena* arena_of(Address address) const;

 private:
  const int device_;
  const std::uint64_t arena_bytes_;
  std::vector<std::unique_ptr<Arena>> arenas_;
};

// Whether the address lies in any arena of the process. Async-signal-safe.
bool is_reserved_address(Address address);

}  // namespace warpserve::gpu
