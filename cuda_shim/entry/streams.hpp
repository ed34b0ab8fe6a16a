// Stream and event handles.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda_shim/entry/call.hpp"
#include "cuda_shim/entry/shared_events.hpp"
#include "cuda_shim/time/event.hpp"
#include "cuda_shim/time/stream.hpp"

namespace warpserve::gpu {

// The handles that mean the default streams in any program: cudaStreamLegacy, cudaStreamPerThread.
inline constexpr std::uintptr_t kLegacyStreamHandle = 1;
inline constexpr std::uintptr_t kPerThreadStreamHandle = 2;

// Default streams are those of the current device. Throws Failure(kInvalidHandle).
std::shared_ptr<Stream> stream_of(void* handle, DefaultStream kind = DefaultStream::kLegacy);
// The device whose stream it is.
Device& device_of(const Stream& stream);

// `flags` as in cudaStreamCreateWithFlags; priorities outside the range are clamped.
void* create_stream(std::uint32_t flags, int priority);
void destroy_stream(void* handle);

inline constexpr std::uint32_t kStreamNonBlocking = 1;
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

// An event with the device on which it was made.
struct DeviceEvent {
  int device;
  std::shared_ptr<Event> event;
  std::shared_ptr<SharedEvent> shared;  // with kEventInterprocess
};

inline constexpr std::uint32_t kEventBlockingSync = 1;
inline constexpr std::uint32_t kEventDisableTiming = 2;
inline constexpr std::uint32_t kEventInterprocess = 4;
inline constexpr std::uint32_t kEventExternal = 1;  // of records and waits

// Throws Failure(kInvalidHandle).
std::shared_ptr<Event> event_of(void* handle);

void* create_event(std::uint32_t flags);
// Of an event with kEventInterprocess; else Failure(kInvalidHandle).
IpcEventHandle ipc_handle_of(void* event);
void* open_event(const IpcEventHandle& handle);
void destroy_event(void* handle);
// Into a stream of the event's own device; else Failure(kInvalidHandle).
Status record_event(void* event, const std::shared_ptr<Stream>& stream, std::uint32_t flags = 0);
Status wait_event(const std::shared_ptr<Stream>& stream, void* event, std::uint32_t flags);
Status elapsed_ms(float* ms, void* start, void* end);

}  // namespace warpserve::gpu
