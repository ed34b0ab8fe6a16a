#include "cuda_shim/entry/graphs.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

using Callback = void (*)(void* stream, std::uint32_t error, void* data);

}  // namespace

std::uint32_t cudaStreamCreate(void** stream) {
  return runtime_call([&] {
    require(stream != nullptr);
    *stream = create_stream(0, kLeastPriority);
  });
}

std::uint32_t cudaStreamCreateWithFlags(void** stream, std::uint32_t flags) {
  return runtime_call([&] {
    require(stream != nullptr);
    *stream = create_stream(flags, kLeastPriority);
  });
}

std::uint32_t cudaStreamCreateWithPriority(void** stream, std::uint32_t flags,
                                           std::int32_t priority) {
  return runtime_call([&] {
    require(stream != nullptr);
    *stream = create_stream(flags, priority);
  });
}

std::uint32_t cudaStreamDestroy(void* stream) {
  return runtime_call([&] { destroy_stream(stream); });
}

RUNTIME_STREAM_CALL(cudaStreamQuery, cudaStreamQuery_ptsz, (void* stream),
                    return stream_of(stream, kDefaultStream)->query();)

RUNTIME_STREAM_CALL(cudaStreamSynchronize, cudaStreamSynchronize_ptsz, (void* stream),
                    return synchronize(*stream_of(stream, kDefaultStream));)

RUNTIME_STREAM_CALL(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz,
                    (void* stream, void* event, std::uint32_t flags),
                    return wait_event(stream_of(stream, kDefaultStream), event, flags);)

RUNTIME_STREAM_CALL(cudaStreamGetFlags, cudaStreamGetFlags_ptsz,
                    (void* stream, std::uint32_t* flags), require(flags != nullptr);
                    *flags = stream_of(stream, kDefaultStream)->blocking() ? 0
                                                                           : kStreamNonBlocking;)

RUNTIME_STREAM_CALL(cudaStreamGetId, cudaStreamGetId_ptsz, (void* stream, std::uint64_t* id),
                    require(id != nullptr);
                    *id = stream_of(stream, kDefaultStream)->id();)

RUNTIME_STREAM_CALL(cudaStreamGetPriority, cudaStreamGetPriority_ptsz,
                    (void* stream, std::int32_t* priority), require(priority != nullptr);
                    *priority = stream_of(stream, kDefaultStream)->priority();)

RUNTIME_STREAM_CALL(cudaStreamGetDevice, cudaStreamGetDevice_ptsz,
                    (void* stream, std::int32_t* device), require(device != nullptr);
                    *device = device_of(*stream_of(stream, kDefaultStream)).ordinal;)

RUNTIME_STREAM_CALL(cudaStreamAddCallback, cudaStreamAddCallback_ptsz,
                    (void* stream, void* callback, void* data, std::uint32_t flags),
                    require(callback != nullptr && flags == 0);
                    const auto target = stream_of(stream, kDefaultStream);
                    const auto function = reinterpret_cast<Callback>(callback);
                    return target->submit(target->context().host_work([=] {
                      function(stream, 0, data);
                    }));)

RUNTIME_STREAM_CALL(cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz,
                    (void* stream, std::uint32_t mode),
                    return begin_capture(*stream_of(stream, kDefaultStream), mode);)

RUNTIME_STREAM_CALL(cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz,
                    (void* stream, void* graph, void* const* dependencies, const void*,
                     std::uint64_t count, std::uint32_t mode),
                    return begin_capture_to(*stream_of(stream, kDefaultStream), graph, dependencies,
                                            count, mode);)

RUNTIME_STREAM_CALL(cudaStreamEndCapture, cudaStreamEndCapture_ptsz, (void* stream, void** graph),
                    return end_capture(*stream_of(stream, kDefaultStream), graph);)

RUNTIME_STREAM_CALL(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz,
                    (void* stream, std::uint32_t* status),
                    tell_capture_info(*stream_of(stream, kDefaultStream), {.status = status});)

#if WARPSERVE_CUDA_MAJOR == 12
RUNTIME_STREAM_CALL(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz,
                    (void* stream, std::uint32_t* status, std::uint64_t* id),
                    tell_capture_info(*stream_of(stream, kDefaultStream),
                                      {.status = status, .id = id});)

RUNTIME_STREAM_CALL(cudaStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo_v2_ptsz,
                    (void* stream, std::uint32_t* status, std::uint64_t* id, void** graph,
                     void* const** dependencies, std::uint64_t* count),
                    tell_capture_info(*stream_of(stream, kDefaultStream),
                                      {.status = status,
                                       .id = id,
                                       .graph = graph,
                                       .dependencies = dependencies,
                                       .dependency_count = count});)

RUNTIME_STREAM_CALL(cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3_ptsz,
                    (void* stream, std::uint32_t* status, std::uint64_t* id, void** graph,
                     void* const** dependencies, const void** edges, std::uint64_t* count),
                    tell_capture_info(*stream_of(stream, kDefaultStream),
                                      {.status = status,
                                       .id = id,
                                       .graph = graph,
                                       .dependencies = dependencies,
                                       .edges = edges,
                                       .dependency_count = count});)

RUNTIME_STREAM_CALL(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz,
                    (void* stream, void** dependencies, std::uint64_t count, std::uint32_t flags),
                    return change_capture_dependencies(*stream_of(stream, kDefaultStream),
                                                       dependencies, count, flags);)

RUNTIME_STREAM_CALL(cudaStreamUpdateCaptureDependencies_v2,
                    cudaStreamUpdateCaptureDependencies_v2_ptsz,
                    (void* stream, void** dependencies, const void*, std::uint64_t count,
                     std::uint32_t flags),
                    return change_capture_dependencies(*stream_of(stream, kDefaultStream),
                                                       dependencies, count, flags);)

#else
RUNTIME_STREAM_CALL(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz,
                    (void* stream, std::uint32_t* status, std::uint64_t* id, void** graph,
                     void* const** dependencies, const void** edges, std::uint64_t* count),
                    tell_capture_info(*stream_of(stream, kDefaultStream),
                                      {.status = status,
                                       .id = id,
                                       .graph = graph,
                                       .dependencies = dependencies,
                                       .edges = edges,
                                       .dependency_count = count});)

RUNTIME_STREAM_CALL(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz,
                    (void* stream, void** dependencies, const void*, std::uint64_t count,
                     std::uint32_t flags),
                    return change_capture_dependencies(*stream_of(stream, kDefaultStream),
                                                       dependencies, count, flags);)

#endif

RUNTIME_STREAM_CALL(cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz,
                    (void* stream, void* pointer, std::uint64_t, std::uint32_t),
                    require(pointer != nullptr);
                    return stream_of(stream, kDefaultStream)->submit(EmptyWork());)
