#include "cuda_shim/entry/streams.hpp"

#include <algorithm>

#include "cuda_shim/entry/handles.hpp"
#include "cuda_shim/entry/memory.hpp"

namespace warpserve::gpu {
namespace {

constexpr float kNsPerMs = 1e6F;

// Owned by its context, which outlives all handles.
std::shared_ptr<Stream> unowned(Stream& stream) {
  return {std::shared_ptr<void>(), &stream};
}

DeviceEvent find_event(void* handle) {
  const auto event = handles<DeviceEvent>().find(handle);
  require(event != nullptr, Error::kInvalidHandle);
  return *event;
}

EventScope scope_of(std::uint32_t flags) {
  require((flags & ~kEventExternal) == 0);
  return flags == kEventExternal ? EventScope::kExternal : EventScope::kStream;
}

}  // namespace

std::shared_ptr<Stream> stream_of(void* handle, DefaultStream kind) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 0 || number == kLegacyStreamHandle || number == kPerThreadStreamHandle) {
    Context& context = current_device().time;
    const bool per_thread =
        number == kPerThreadStreamHandle || (number == 0 && kind == DefaultStream::kPerThread);
    return unowned(per_thread ? context.per_thread_stream() : context.legacy_stream());
  }
  auto stream = handles<Stream>().find(handle);
  require(stream != nullptr, Error::kInvalidHandle);
  return stream;
}

Device& device_of(const Stream& stream) {
  Process& process = Process::get();
  for (int i = 0; i < process.device_count(); ++i) {
    if (&process.device(i).time == &stream.context()) return process.device(i);
  }
  fail(Error::kInvalidHandle);
}

void* create_stream(std::uint32_t flags, int priority) {
  require((flags & ~kStreamNonBlocking) == 0);
  const StreamOptions options{.blocking = (flags & kStreamNonBlocking) == 0,
                              .priority = std::clamp(priority, kGreatestPriority, kLeastPriority)};
  return handles<Stream>().add(current_device().time.create_stream(options));
}

void destroy_stream(void* handle) {
  require(handles<Stream>().remove(handle) != nullptr, Error::kInvalidHandle);
}

std::shared_ptr<Event> event_of(void* handle) {
  return find_event(handle).event;
}

void* create_event(std::uint32_t flags) {
  require((flags & ~(kEventBlockingSync | kEventDisableTiming | kEventInterprocess)) == 0);
  const EventOptions options{.timing = (flags & kEventDisableTiming) == 0,
                             .interprocess = (flags & kEventInterprocess) != 0,
                             .blocking_sync = (flags & kEventBlockingSync) != 0};
  require(!options.interprocess || !options.timing);
  Device& device = current_device();
  auto shared = options.interprocess ? make_shared_event(device.physical) : nullptr;
  return handles<DeviceEvent>().add(std::make_shared<DeviceEvent>(
      DeviceEvent{device.ordinal, device.time.create_event(options, shared), shared}));
}

IpcEventHandle ipc_handle_of(void* event) {
  const DeviceEvent found = find_event(event);
  require(found.shared != nullptr, Error::kInvalidHandle);
  return found.shared->handle();
}

void* open_event(const IpcEventHandle& handle) {
  auto shared = open_shared_event(handle);
  const int ordinal = ordinal_of(shared->physical_device());
  require(ordinal >= 0, Error::kInvalidDevice);
  Device& device = Process::get().device(ordinal);
  device.open();
  constexpr EventOptions kOptions{.timing = false, .interprocess = true};
  return handles<DeviceEvent>().add(std::make_shared<DeviceEvent>(
      DeviceEvent{ordinal, device.time.create_event(kOptions, shared), shared}));
}

void destroy_event(void* handle) {
  require(handles<DeviceEvent>().remove(handle) != nullptr, Error::kInvalidHandle);
}

Status record_event(void* event, const std::shared_ptr<Stream>& stream, std::uint32_t flags) {
  const DeviceEvent found = find_event(event);
  require(device_of(*stream).ordinal == found.device, Error::kInvalidHandle);
  return stream->record(found.event, scope_of(flags));
}

Status wait_event(const std::shared_ptr<Stream>& stream, void* event, std::uint32_t flags) {
  return stream->wait(event_of(event), scope_of(flags));
}

Status elapsed_ms(float* ms, void* start, void* end) {
  require(ms != nullptr);
  const DeviceEvent first = find_event(start);
  const DeviceEvent last = find_event(end);
  require(first.device == last.device, Error::kInvalidHandle);
  VirtualDuration elapsed;
  const Status status = Event::elapsed(*first.event, *last.event, elapsed);
  if (status == Status::kOk) *ms = static_cast<float>(elapsed.ns()) / kNsPerMs;
  return status;
}

}  // namespace warpserve::gpu
