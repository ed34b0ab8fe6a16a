// Words of the memory of a GPU, and the record of one allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace warpserve::gpu {

using Address = std::uintptr_t;

inline void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}
inline Address address_of(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

// `alignment` is a power of two.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t alignment) {
  return value & ~(alignment - 1);
}

enum class Residency : std::uint8_t {
  kControl,  // host memory: readable, and copies move it
  kCompute,  // addresses without pages
};

enum class MemoryKind : std::uint8_t {
  kUnregistered,  // memory of the host that the GPUs know nothing of
  kDevice,        // cudaMalloc
  kPool,          // cudaMallocAsync
  kMapped,        // cuMemMap
  kImported,      // cudaIpcOpenMemHandle
  kManaged,       // cudaMallocManaged
  kPinned,        // cudaHostAlloc
  kRegistered,    // cudaHostRegister
};

constexpr bool is_host(MemoryKind kind) {
  return kind == MemoryKind::kUnregistered || kind == MemoryKind::kPinned ||
         kind == MemoryKind::kRegistered;
}

inline constexpr int kNoDevice = -1;

// Return addresses of where memory was allocated, the innermost first; null after the last.
using Origin = std::array<void*, 24>;

// One range of addresses that belongs together.
struct Allocation {
  Address base = 0;
  std::uint64_t bytes = 0;  // as asked for
  MemoryKind kind = MemoryKind::kUnregistered;
  int device = kNoDevice;  // for host memory: of the thread that pinned it
  Residency residency = Residency::kControl;
  bool accessible = true;          // kMapped: some device may access it
  std::uint32_t flags = 0;         // kPinned, kRegistered, kManaged: what the program gave
  std::uint64_t owner = 0;         // kPool: the pool's handle; kMapped: the physical memory's
  std::uint64_t number = 0;        // counts the allocations of the process, from 1
  std::unique_ptr<Origin> origin;  // of compute memory
  // Something was copied to it or from it, or it was filled.
  mutable std::atomic<bool> touched = false;

  Address end() const { return base + bytes; }
};

// The answer to a question about a pointer.
struct PointerInfo {
  MemoryKind kind = MemoryKind::kUnregistered;
  int device = kNoDevice;
  Address base = 0;
  std::uint64_t bytes = 0;
  Residency residency = Residency::kControl;
  std::uint32_t flags = 0;
  std::uint64_t owner = 0;
  std::uint64_t number = 0;  // CU_POINTER_ATTRIBUTE_BUFFER_ID
};

}  // namespace warpserve::gpu
