// Allocations that other processes open (cudaIpcGetMemHandle): the same bytes where it is control
// memory.
//
// A handle says where the maker keeps the bytes: its process, and a range of one of its memory
// files, which the opener gets through /proc/PID/fd.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

struct State;

// As large as cudaIpcMemHandle_t; its contents are ours.
using IpcHandle = std::array<std::byte, 64>;

// Any thread may call anything.
class Ipc {
 public:
  explicit Ipc(State& state) : state_(state) {}
  Ipc(const Ipc&) = delete;
  Ipc& operator=(const Ipc&) = delete;

  // Of what cudaMalloc gave; any address in it stands for all of it.
  Result<IpcHandle> get_handle(Address address);
  // On the device that has it. Another time for the same handle: the same address, one use more.
  // kInvalidHandle where the maker has ended or freed it.
  Result<Address> open(const IpcHandle& handle);
  // kInvalidPointer for what was not opened.
  MemoryStatus close(Address address);

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // maker's pid, its number of the allocation
  struct Import {
    Key key;
    int device = kNoDevice;
    Address range = 0;  // in whole blocks
    std::uint64_t range_bytes = 0;
    Residency residency = Residency::kControl;
    std::uint64_t uses = 1;
  };
  friend class Memory;

  // With the state's mutex held:
  void close_one(std::map<Address, Import>::iterator import);
  void reset(int device);

  State& state_;
  std::map<Address, Import> imports_;
  std::map<Key, Address> opened_;
};

}  // namespace warpserve::gpu
