#include <vector>

#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/graphs.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"
#include "cuda_shim/entry/value_waits.hpp"

using namespace warpserve::gpu;

namespace {

using Callback = void (*)(void* stream, std::uint32_t error, void* data);

}  // namespace

std::uint32_t cuStreamCreate(void** stream, std::uint32_t flags) {
  return driver_call([&] {
    require(stream != nullptr);
    *stream = create_stream(flags, kLeastPriority);
  });
}

std::uint32_t cuStreamCreateWithPriority(void** stream, std::uint32_t flags,
                                         std::int32_t priority) {
  return driver_call([&] {
    require(stream != nullptr);
    *stream = create_stream(flags, priority);
  });
}

std::uint32_t cuStreamDestroy(void* stream) {
  return driver_call([&] { destroy_stream(stream); });
}

std::uint32_t cuStreamDestroy_v2(void* stream) {
  return driver_call([&] { destroy_stream(stream); });
}

DRIVER_STREAM_CALL(cuStreamQuery, cuStreamQuery_ptsz, (void* stream),
                   return stream_of(stream, kDefaultStream)->query();)

DRIVER_STREAM_CALL(cuStreamSynchronize, cuStreamSynchronize_ptsz, (void* stream),
                   return synchronize(*stream_of(stream, kDefaultStream));)

DRIVER_STREAM_CALL(cuStreamWaitEvent, cuStreamWaitEvent_ptsz,
                   (void* stream, void* event, std::uint32_t flags),
                   return wait_event(stream_of(stream, kDefaultStream), event, flags);)

DRIVER_STREAM_CALL(cuStreamGetFlags, cuStreamGetFlags_ptsz, (void* stream, std::uint32_t* flags),
                   require(flags != nullptr);
                   *flags = stream_of(stream, kDefaultStream)->blocking() ? 0 : kStreamNonBlocking;)

DRIVER_STREAM_CALL(cuStreamGetId, cuStreamGetId_ptsz, (void* stream, std::uint64_t* id),
                   require(id != nullptr);
                   *id = stream_of(stream, kDefaultStream)->id();)

DRIVER_STREAM_CALL(cuStreamGetPriority, cuStreamGetPriority_ptsz,
                   (void* stream, std::int32_t* priority), require(priority != nullptr);
                   *priority = stream_of(stream, kDefaultStream)->priority();)

DRIVER_STREAM_CALL(cuStreamGetDevice, cuStreamGetDevice_ptsz, (void* stream, std::int32_t* device),
                   require(device != nullptr);
                   *device = device_of(*stream_of(stream, kDefaultStream)).ordinal;)

DRIVER_STREAM_CALL(cuStreamAddCallback, cuStreamAddCallback_ptsz,
                   (void* stream, void* callback, void* data, std::uint32_t flags),
                   require(callback != nullptr && flags == 0);
                   const auto target = stream_of(stream, kDefaultStream);
                   const auto function = reinterpret_cast<Callback>(callback);
                   return target->submit(target->context().host_work([=] {
                     function(stream, 0, data);
                   }));)

DRIVER_STREAM_CALL(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (void* stream),
                   return begin_capture(*stream_of(stream, kDefaultStream), 0);)

DRIVER_STREAM_CALL(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz,
                   (void* stream, std::uint32_t mode),
                   return begin_capture(*stream_of(stream, kDefaultStream), mode);)

DRIVER_STREAM_CALL(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
                   (void* stream, void* graph, void* const* dependencies, const void*,
                    std::uint64_t count, std::uint32_t mode),
                   return begin_capture_to(*stream_of(stream, kDefaultStream), graph, dependencies,
                                           count, mode);)

DRIVER_STREAM_CALL(cuStreamEndCapture, cuStreamEndCapture_ptsz, (void* stream, void** graph),
                   return end_capture(*stream_of(stream, kDefaultStream), graph);)

DRIVER_STREAM_CALL(cuStreamIsCapturing, cuStreamIsCapturing_ptsz,
                   (void* stream, std::uint32_t* status),
                   tell_capture_info(*stream_of(stream, kDefaultStream), {.status = status});)

DRIVER_STREAM_CALL(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,
                   (void* stream, std::uint32_t* status, std::uint64_t* id),
                   tell_capture_info(*stream_of(stream, kDefaultStream),
                                     {.status = status, .id = id});)

DRIVER_STREAM_CALL(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
                   (void* stream, std::uint32_t* status, std::uint64_t* id, void** graph,
                    void* const** dependencies, std::uint64_t* count),
                   tell_capture_info(*stream_of(stream, kDefaultStream),
                                     {.status = status,
                                      .id = id,
                                      .graph = graph,
                                      .dependencies = dependencies,
                                      .dependency_count = count});)

DRIVER_STREAM_CALL(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
                   (void* stream, std::uint32_t* status, std::uint64_t* id, void** graph,
                    void* const** dependencies, const void** edges, std::uint64_t* count),
                   tell_capture_info(*stream_of(stream, kDefaultStream),
                                     {.status = status,
                                      .id = id,
                                      .graph = graph,
                                      .dependencies = dependencies,
                                      .edges = edges,
                                      .dependency_count = count});)

DRIVER_STREAM_CALL(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz,
                   (void* stream, void** dependencies, std::uint64_t count, std::uint32_t flags),
                   return change_capture_dependencies(*stream_of(stream, kDefaultStream),
                                                      dependencies, count, flags);)

DRIVER_STREAM_CALL(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz,
                   (void* stream, void** dependencies, const void*, std::uint64_t count,
                    std::uint32_t flags),
                   return change_capture_dependencies(*stream_of(stream, kDefaultStream),
                                                      dependencies, count, flags);)

DRIVER_STREAM_CALL(cuStreamGetCtx, cuStreamGetCtx_ptsz, (void* stream, void** context),
                   require(context != nullptr);
                   *context = device_of(*stream_of(stream, kDefaultStream)).primary_context.get();)

DRIVER_STREAM_CALL(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
                   (void* stream, std::uint64_t pointer, std::uint64_t, std::uint32_t),
                   require(pointer != 0);
                   return stream_of(stream, kDefaultStream)->submit(EmptyWork());)

DRIVER_STREAM_CALL(cuStreamWaitValue32, cuStreamWaitValue32_ptsz,
                   (void* stream, std::uint64_t address, std::uint32_t value, std::uint32_t flags),
                   return wait_for_value(*stream_of(stream, kDefaultStream), address, value,
                                         flags);)

DRIVER_STREAM_CALL(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz,
                   (void* stream, std::uint64_t address, std::uint32_t value, std::uint32_t flags),
                   return wait_for_value(*stream_of(stream, kDefaultStream), address, value,
                                         flags);)

DRIVER_STREAM_CALL(cuStreamWaitValue64, cuStreamWaitValue64_ptsz,
                   (void* stream, std::uint64_t address, std::uint64_t value, std::uint32_t flags),
                   return wait_for_value(*stream_of(stream, kDefaultStream), address, value,
                                         flags);)

DRIVER_STREAM_CALL(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz,
                   (void* stream, std::uint64_t address, std::uint64_t value, std::uint32_t flags),
                   return wait_for_value(*stream_of(stream, kDefaultStream), address, value,
                                         flags);)

DRIVER_STREAM_CALL(cuStreamWriteValue32, cuStreamWriteValue32_ptsz,
                   (void* stream, std::uint64_t address, std::uint32_t value, std::uint32_t flags),
                   return write_value(*stream_of(stream, kDefaultStream), address, value, flags);)

DRIVER_STREAM_CALL(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz,
                   (void* stream, std::uint64_t address, std::uint32_t value, std::uint32_t flags),
                   return write_value(*stream_of(stream, kDefaultStream), address, value, flags);)

DRIVER_STREAM_CALL(cuStreamWriteValue64, cuStreamWriteValue64_ptsz,
                   (void* stream, std::uint64_t address, std::uint64_t value, std::uint32_t flags),
                   return write_value(*stream_of(stream, kDefaultStream), address, value, flags);)

DRIVER_STREAM_CALL(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz,
                   (void* stream, std::uint64_t address, std::uint64_t value, std::uint32_t flags),
                   return write_value(*stream_of(stream, kDefaultStream), address, value, flags);)
