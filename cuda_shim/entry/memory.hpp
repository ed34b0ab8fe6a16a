// Memory as entry points use it: ordinals become devices of the machine, what went wrong becomes a
// Failure, and copies and fills get their place in a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_shim/entry/call.hpp"
#include "cuda_shim/memory/memory.hpp"
#include "cuda_shim/time/stream.hpp"

namespace warpserve::gpu {

Error error_of(MemoryStatus status);

// The value; throws Failure where there is none.
template <class T>
const T& value_of(const Result<T>& result) {
  if (!result.ok()) fail(error_of(result.status()));
  return result.value();
}
inline void expect(MemoryStatus status) {
  if (status != MemoryStatus::kOk) fail(error_of(status));
}

// The ordinal of a device of the machine; -1 where this process does not see it.
int ordinal_of(int physical);

// Allocations and frees are not to be captured. Throws Failure(kCaptureUnsupported).
void refuse_in_capture();

enum class Blocking { kNo, kYes };

// In stream order. Host memory that is not pinned makes any copy to it block, and any copy from it
// read before the call returns. Copies within devices never block.
Status copy(Stream& stream, const CopyPlan& plan, Blocking blocking);
// In stream order, as one piece of work where they go the same way between pinned or device memory.
Status copy_batch(Stream& stream, const std::vector<CopyPlan>& plans);
Status fill(Stream& stream, const FillPlan& plan);
// Managed memory is where both can read it: nothing moves. Throws Failure(kInvalidValue) for what
// is none, but for the host's own where the GPU reads that.
Status prefetch(Stream& stream, Address address, std::uint64_t bytes);

// Wait as the program asks to; pools give back then what they hold beyond their threshold.
Status synchronize(Stream& stream);
Status synchronize(Device& device);
Status synchronize_event(void* event);

// The work of a copy that begins in a stream of that context.
Work copy_work(Context& context, const CopyPlan& plan);

// The runtime's numbers: cudaMemcpyKind.
CopyKind copy_kind_of(std::uint32_t kind);

// What is done with the device's memory when the device was waited for.
void free_memory(Address address);
void free_pinned(Address address);

// cudaMemoryType and CUmemorytype: 1 host, 2 device; the runtime's 0 and 3 are unregistered and
// managed memory.
inline constexpr std::uint32_t kHostMemoryType = 1;
inline constexpr std::uint32_t kDeviceMemoryType = 2;
inline constexpr std::uint32_t kManagedMemoryType = 3;

}  // namespace warpserve::gpu
