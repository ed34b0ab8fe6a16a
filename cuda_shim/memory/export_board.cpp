#include "cuda_shim/memory/export_board.hpp"

#include <unistd.h>

namespace warpserve::gpu {
namespace {

bool write_slot(int fd, std::uint64_t slot_offset, std::uint64_t number) {
  return pwrite(fd, &number, sizeof number, static_cast<off_t>(slot_offset)) == sizeof number;
}

}  // namespace

std::optional<std::uint64_t> ExportBoard::announce(std::uint64_t number) {
  const auto slot_offset = [this](std::uint32_t slot) {
    return offset_ + slot * sizeof(std::uint64_t);
  };
  if (const auto known = slots_.find(number); known != slots_.end()) {
    return slot_offset(known->second);
  }
  // Every slot below the number of those in use was used; those that are free now are withdrawn_.
  const auto slot =
      withdrawn_.empty() ? static_cast<std::uint32_t>(slots_.size()) : *withdrawn_.begin();
  if (slot >= kSlots || !write_slot(fd_, slot_offset(slot), number)) return std::nullopt;
  withdrawn_.erase(slot);
  slots_.emplace(number, slot);
  return slot_offset(slot);
}

void ExportBoard::withdraw(std::uint64_t number) {
  const auto known = slots_.find(number);
  if (known == slots_.end()) return;
  write_slot(fd_, offset_ + known->second * sizeof(std::uint64_t), 0);
  withdrawn_.insert(known->second);
  slots_.erase(known);
}

bool ExportBoard::is_announced(int fd, std::uint64_t slot_offset, std::uint64_t number) {
  std::uint64_t found = 0;
  return pread(fd, &found, sizeof found, static_cast<off_t>(slot_offset)) == sizeof found &&
         found == number;
}

}  // namespace warpserve::gpu
