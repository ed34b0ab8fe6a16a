// What of a memory file other processes may open: slots at its end, each with the number of an
// allocation, or 0. An IPC handle names a slot, and is void once that holds another number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace warpserve::gpu {

class ExportBoard {
 public:
  static constexpr std::uint32_t kSlots = 8192;
  static constexpr std::uint64_t kBytes = kSlots * sizeof(std::uint64_t);

  // The file outlives it, and has kBytes zeros from the offset on.
  ExportBoard(int fd, std::uint64_t offset) : fd_(fd), offset_(offset) {}

  // Where the file says that the allocation may be opened; an offset in the file. Nothing where all
  // slots are taken.
  std::optional<std::uint64_t> announce(std::uint64_t number);
  // Also for what was never announced.
  void withdraw(std::uint64_t number);

  // In another process' file.
  static bool is_announced(int fd, std::uint64_t slot_offset, std::uint64_t number);

 private:
  const int fd_;
  const std::uint64_t offset_;
  std::map<std::uint64_t, std::uint32_t> slots_;  // by number
  std::set<std::uint32_t> withdrawn_;
};

}  // namespace warpserve::gpu
