#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

std::uint32_t cuEventCreate(void** event, std::uint32_t flags) {
  return driver_call([&] {
    require(event != nullptr);
    *event = create_event(flags);
  });
}

std::uint32_t cuEventDestroy(void* event) {
  return driver_call([&] { destroy_event(event); });
}

std::uint32_t cuEventDestroy_v2(void* event) {
  return driver_call([&] { destroy_event(event); });
}

DRIVER_STREAM_CALL(cuEventRecord, cuEventRecord_ptsz, (void* event, void* stream),
                   return record_event(event, stream_of(stream, kDefaultStream));)

DRIVER_STREAM_CALL(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz,
                   (void* event, void* stream, std::uint32_t flags),
                   return record_event(event, stream_of(stream, kDefaultStream), flags);)

std::uint32_t cuEventQuery(void* event) {
  return driver_call([&] { return event_of(event)->query(); });
}

std::uint32_t cuEventSynchronize(void* event) {
  return driver_call([&] { return synchronize_event(event); });
}

std::uint32_t cuEventElapsedTime(float* ms, void* start, void* end) {
  return driver_call([&] { return elapsed_ms(ms, start, end); });
}

std::uint32_t cuEventElapsedTime_v2(float* ms, void* start, void* end) {
  return driver_call([&] { return elapsed_ms(ms, start, end); });
}
