// Calls that ask for pages in advance. Programs prepare large pools of pinned memory with them;
// what a virtual GPU copies is never there, so that they would cost memory and time for nothing.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "cuda_shim/entry/process.hpp"
#include "cuda_shim/memory/memory.hpp"

namespace {

constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ and _WRITE, since Linux 5.14
constexpr int kPopulateWrite = 23;

// Pinned or registered already: it counts as locked.
bool is_pinned(const void* address, std::size_t bytes) {
  using namespace warpserve::gpu;
  return is_driver_initialized() && process_memory().host().covers(address_of(address), bytes);
}

}  // namespace

#pragma GCC visibility push(default)

// System calls rather than the C library's functions, which would have to be looked up: memory
// allocators call these. Whoever populates a pool may pin it afterwards only.
extern "C" int madvise(void* address, std::size_t bytes, int advice) noexcept {
  if (advice == kPopulateRead || advice == kPopulateWrite) return 0;
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

extern "C" int mlock(const void* address, std::size_t bytes) noexcept {
  if (is_pinned(address, bytes)) return 0;
  return static_cast<int>(syscall(SYS_mlock, address, bytes));
}

#pragma GCC visibility pop
