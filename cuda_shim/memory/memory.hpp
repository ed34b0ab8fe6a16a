// The memory of all GPUs as one process uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_shim/device/profile.hpp"
#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/control_scope.hpp"
#include "cuda_shim/memory/copy.hpp"
#include "cuda_shim/memory/directory.hpp"
#include "cuda_shim/memory/host_memory.hpp"
#include "cuda_shim/memory/ipc.hpp"
#include "cuda_shim/memory/options.hpp"
#include "cuda_shim/memory/pool.hpp"
#include "cuda_shim/memory/status.hpp"
#include "cuda_shim/memory/symbols.hpp"
#include "cuda_shim/memory/virtual_memory.hpp"

namespace warpserve::gpu {

// What cudaMemGetInfo says.
struct MemoryInfo {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// What nvmlDeviceGetMemoryInfo_v2 says: total = reserved + used + free. The first version of that
// function counts what is reserved as used.
struct NvmlMemoryInfo {
  std::uint64_t total_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t free_bytes = 0;
};

struct ProcessMemory {
  std::uint32_t pid = 0;
  std::uint64_t used_bytes = 0;
};

struct PitchedAllocation {
  Address address = 0;
  std::uint64_t pitch_bytes = 0;
};

// Whether bytes exist, for who computes on the host.
enum class Contents : std::uint8_t {
  kReal,  // host or control memory: read and write them through the pointer
  kNone,  // compute memory, in part at least
};

// Any thread may call anything. Devices have the machine's numbers: who hides or reorders some
// (CUDA_VISIBLE_DEVICES) translates.
class Memory {
 public:
  // `machine` outlives it. Throws MemoryError.
  Memory(const Machine& machine, MemoryOptions options);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // A context takes memory of the device (the catalogue's context_memory_bytes), once a process and
  // device. kOutOfMemory where there is none left.
  MemoryStatus open_context(int device);
  // cudaDeviceReset: all that this process has on the device is gone, its context, too.
  MemoryStatus reset(int device);
  // In a forked child whose parent had contexts and nothing else: it has none of its own yet.
  // kInvalidValue where there was more.
  MemoryStatus begin_anew();

  // 0 for 0 bytes, as cudaMalloc has it.
  Result<Address> allocate(int device, std::uint64_t bytes);
  Result<PitchedAllocation> allocate_pitched(int device, std::uint64_t width_bytes,
                                             std::uint64_t rows);
  // Frees what `allocate`, managed allocation and pools gave, by its first address: cudaFree and
  // cudaFreeAsync take either. 0 is nothing.
  MemoryStatus free(Address address);
  // Makes an allocation of `allocate` control memory. kInvalidValue where it was copied to or from,
  // or filled: its contents would be lost.
  MemoryStatus mark_control(Address address);

  // kInvalidPointer for addresses of ours in which nothing is (any more).
  Result<PointerInfo> query(Address address) const;
  // kInvalidPointer, or kOutOfBounds for a range that is not allocated to its end.
  Result<Contents> contents(Address address, std::uint64_t bytes) const;

  Result<MemoryInfo> info(int device) const;
  Result<NvmlMemoryInfo> nvml_info(int device) const;
  // The processes of the session that use the device.
  Result<std::vector<ProcessMemory>> processes(int device) const;

  // From now on a CPU access to compute memory is reported before it ends the process
  // (fatal_access.hpp). For one Memory a process.
  void report_fatal_accesses() const;

  Pools& pools() { return pools_; }
  VirtualMemory& virtual_memory() { return virtual_memory_; }
  Ipc& ipc() { return ipc_; }
  HostMemory& host() { return host_; }
  Copies& copies() { return copies_; }
  Symbols& symbols() { return symbols_; }

 private:
  friend class Symbols;

  // With the state's mutex held:
  Result<Address> allocate_locked(int device, std::uint64_t bytes, Residency residency);
  void free_device(const Allocation& allocation);
  void free_any(Directory::Iterator allocation);

  const std::unique_ptr<State> state_;
  Pools pools_;
  VirtualMemory virtual_memory_;
  Ipc ipc_;
  HostMemory host_;
  Copies copies_;
  Symbols symbols_;
};

// The memory of this process on session_machine(), with MemoryOptions::of_process() and with fatal
// accesses reported (fatal_access.hpp), made at the first call. Throws ProfileError, MemoryError.
Memory& process_memory();

}  // namespace warpserve::gpu
