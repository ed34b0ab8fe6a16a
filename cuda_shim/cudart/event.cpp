#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

std::uint32_t cudaEventCreate(void** event) {
  return runtime_call([&] {
    require(event != nullptr);
    *event = create_event(0);
  });
}

std::uint32_t cudaEventCreateWithFlags(void** event, std::uint32_t flags) {
  return runtime_call([&] {
    require(event != nullptr);
    *event = create_event(flags);
  });
}

std::uint32_t cudaEventDestroy(void* event) {
  return runtime_call([&] { destroy_event(event); });
}

RUNTIME_STREAM_CALL(cudaEventRecord, cudaEventRecord_ptsz, (void* event, void* stream),
                    return record_event(event, stream_of(stream, kDefaultStream));)

RUNTIME_STREAM_CALL(cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz,
                    (void* event, void* stream, std::uint32_t flags),
                    return record_event(event, stream_of(stream, kDefaultStream), flags);)

std::uint32_t cudaEventQuery(void* event) {
  return runtime_call([&] { return event_of(event)->query(); });
}

std::uint32_t cudaEventSynchronize(void* event) {
  return runtime_call([&] { return synchronize_event(event); });
}

std::uint32_t cudaEventElapsedTime(float* ms, void* start, void* end) {
  return runtime_call([&] { return elapsed_ms(ms, start, end); });
}

#if WARPSERVE_CUDA_MAJOR == 12
std::uint32_t cudaEventElapsedTime_v2(float* ms, void* start, void* end) {
  return runtime_call([&] { return elapsed_ms(ms, start, end); });
}
#endif
