// What the parts of a process' GPU memory share, and the one mutex over all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "cuda_shim/device/profile.hpp"
#include "cuda_shim/memory/account.hpp"
#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/arena.hpp"
#include "cuda_shim/memory/block_heap.hpp"
#include "cuda_shim/memory/control_scope.hpp"
#include "cuda_shim/memory/device_space.hpp"
#include "cuda_shim/memory/directory.hpp"
#include "cuda_shim/memory/options.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

// A device as this process uses it.
struct DeviceState {
  DeviceState(int number, const GpuKind& gpu, const MemoryOptions& options, Account& account);

  BlockHeap& small(Residency residency) {
    return residency == Residency::kControl ? small_control : small_compute;
  }

  DeviceSpace space;
  // cudaMalloc of less than a block.
  BlockHeap small_control;
  BlockHeap small_compute;
  bool has_context = false;
};

struct State {
  State(const Machine& machine_of_session, MemoryOptions chosen);

  bool has_device(int device) const {
    return device >= 0 && device < static_cast<int>(devices.size());
  }
  DeviceState& device(int number) { return *devices.at(static_cast<std::size_t>(number)); }

  // Of an allocation of so many bytes, made now by this thread.
  Residency residency_for(std::uint64_t bytes) const {
    return bytes < options.control_threshold_bytes || ControlScope::active() ? Residency::kControl
                                                                             : Residency::kCompute;
  }

  const Machine& machine;
  const MemoryOptions options;

  // Exclusive for whoever allocates or frees, shared for whoever looks or moves bytes.
  mutable std::shared_mutex mutex;
  Account account;
  Directory directory;
  std::vector<std::unique_ptr<DeviceState>> devices;
  AddressSpace virtual_addresses;
};

}  // namespace warpserve::gpu
