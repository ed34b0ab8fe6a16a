// Blocks of a device's memory: counted against its capacity, at addresses of its own.
#pragma once

#include <cstdint>

#include "cuda_shim/memory/account.hpp"
#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/arena.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

class DeviceSpace {
 public:
  DeviceSpace(int device, std::uint64_t capacity_bytes, std::uint64_t granularity_bytes,
              std::uint64_t arena_bytes, Account& account);

  int device() const { return device_; }
  // Of physical memory: whole numbers of blocks are given out.
  std::uint64_t block_bytes() const { return block_bytes_; }

  // kOutOfMemory where the device, or the host for its part, has no more. `bytes` are whole blocks.
  Result<Address> acquire(std::uint64_t bytes, Residency residency);
  void release(Address address, std::uint64_t bytes, Residency residency);
  // Puts pages behind compute memory, zeroed.
  MemoryStatus make_control(Address address, std::uint64_t bytes);

  // Capacity without addresses, and addresses without capacity.
  [[nodiscard]] bool charge(std::uint64_t bytes) {
    return account_.charge(device_, bytes, capacity_bytes_);
  }
  void give_back(std::uint64_t bytes) { account_.give_back(device_, bytes); }
  Address take_addresses(std::uint64_t bytes) { return addresses_.take(bytes, block_bytes_); }
  void give_addresses(Address address, std::uint64_t bytes) { addresses_.give(address, bytes); }

  // What would lie behind the address if it were control memory, or does.
  FileRange file_range(Address address) const {
    return addresses_.arena_of(address)->file_range(address);
  }
  ExportBoard& board_of(Address address) { return addresses_.arena_of(address)->board(); }

 private:
  const int device_;
  const std::uint64_t capacity_bytes_;
  const std::uint64_t block_bytes_;
  Account& account_;
  AddressSpace addresses_;
};

// Gives the pages of a file back to the host; they read as zeros afterwards.
void punch_hole(const FileRange& range, std::uint64_t bytes);

}  // namespace warpserve::gpu
