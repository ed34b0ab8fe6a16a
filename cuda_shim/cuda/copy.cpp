#include <vector>

#include "cuda_shim/entry/contexts.hpp"
#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

// CUDA_MEMCPY2D.
struct Place2d {
  std::uint64_t x_bytes, y;
  std::uint32_t memory_type;
  void* host;
  std::uint64_t device;
  void* array;
  std::uint64_t pitch_bytes;
};
struct Copy2d {
  Place2d from, to;
  std::uint64_t width_bytes, height;
};
// CUDA_MEMCPY3D.
struct Place3d {
  std::uint64_t x_bytes, y, z, lod;
  std::uint32_t memory_type;
  void* host;
  std::uint64_t device;
  void* array;
  void* reserved;
  std::uint64_t pitch_bytes, height;
};
struct Copy3d {
  Place3d from, to;
  std::uint64_t width_bytes, height, depth;
};

constexpr std::uint32_t kArrayMemoryType = 3;

template <class Place>
Address base_of(const Place& place) {
  require(place.memory_type != kArrayMemoryType, Error::kNotSupported);
  return place.memory_type == kHostMemoryType ? address_of(place.host) : place.device;
}

CopyPlan plan(std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
              CopyKind kind = CopyKind::kInfer) {
  return value_of(process_memory().copies().plan(to, from, bytes, kind));
}

CopyPlan plan_2d(const void* parameters) {
  require(parameters != nullptr);
  const auto& [from, to, width_bytes, height] = *static_cast<const Copy2d*>(parameters);
  return value_of(process_memory().copies().plan(
      {.to = base_of(to) + to.x_bytes + to.y * to.pitch_bytes,
       .from = base_of(from) + from.x_bytes + from.y * from.pitch_bytes,
       .width_bytes = width_bytes,
       .rows = height,
       .to_pitch_bytes = to.pitch_bytes,
       .from_pitch_bytes = from.pitch_bytes},
      CopyKind::kInfer));
}

CopyPlan plan_3d(const void* parameters) {
  require(parameters != nullptr);
  const auto& [from, to, width_bytes, height, depth] = *static_cast<const Copy3d*>(parameters);
  return value_of(process_memory().copies().plan(
      {.to = base_of(to) + to.x_bytes + to.pitch_bytes * (to.y + to.height * to.z),
       .from = base_of(from) + from.x_bytes + from.pitch_bytes * (from.y + from.height * from.z),
       .width_bytes = width_bytes,
       .rows = height,
       .slices = depth,
       .to_pitch_bytes = to.pitch_bytes,
       .from_pitch_bytes = from.pitch_bytes,
       .to_slice_pitch_bytes = to.pitch_bytes * to.height,
       .from_slice_pitch_bytes = from.pitch_bytes * from.height},
      CopyKind::kInfer));
}

std::vector<CopyPlan> plans(const std::uint64_t* to, const std::uint64_t* from,
                            const std::uint64_t* bytes, std::uint64_t count) {
  require(to != nullptr && from != nullptr && bytes != nullptr && count > 0);
  std::vector<CopyPlan> all;
  all.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(plan(to[i], from[i], bytes[i]));
  return all;
}

FillPlan plan_fill(std::uint64_t to, std::uint32_t value, std::uint64_t element_bytes,
                   std::uint64_t elements, std::uint64_t rows = 1, std::uint64_t pitch_bytes = 0) {
  require(to % element_bytes == 0);
  return value_of(process_memory().copies().plan_fill({.to = to,
                                                       .value = value,
                                                       .element_bytes = element_bytes,
                                                       .elements = elements,
                                                       .rows = rows,
                                                       .pitch_bytes = pitch_bytes}));
}

}  // namespace

DRIVER_STREAM_CALL(cuMemcpy, cuMemcpy_ptds,
                   (std::uint64_t to, std::uint64_t from, std::uint64_t bytes),
                   return copy(*stream_of(nullptr, kDefaultStream), plan(to, from, bytes),
                               Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpyAsync, cuMemcpyAsync_ptsz,
                   (std::uint64_t to, std::uint64_t from, std::uint64_t bytes, void* stream),
                   return copy(*stream_of(stream, kDefaultStream), plan(to, from, bytes),
                               Blocking::kNo);)

DRIVER_STREAM_CALL(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,
                   (std::uint64_t* to, std::uint64_t* from, std::uint64_t* bytes,
                    std::uint64_t count, void*, std::uint64_t*, std::uint64_t, std::uint64_t*,
                    void* stream),
                   return copy_batch(*stream_of(stream, kDefaultStream),
                                     plans(to, from, bytes, count));)

DRIVER_STREAM_CALL(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,
                   (std::uint64_t* to, std::uint64_t* from, std::uint64_t* bytes,
                    std::uint64_t count, void*, std::uint64_t*, std::uint64_t, void* stream),
                   return copy_batch(*stream_of(stream, kDefaultStream),
                                     plans(to, from, bytes, count));)

DRIVER_STREAM_CALL(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds,
                   (std::uint64_t to, const void* from, std::uint64_t bytes),
                   return copy(*stream_of(nullptr, kDefaultStream),
                               plan(to, address_of(from), bytes, CopyKind::kHostToDevice),
                               Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
                   (std::uint64_t to, const void* from, std::uint64_t bytes, void* stream),
                   return copy(*stream_of(stream, kDefaultStream),
                               plan(to, address_of(from), bytes, CopyKind::kHostToDevice),
                               Blocking::kNo);)

DRIVER_STREAM_CALL(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds,
                   (void* to, std::uint64_t from, std::uint64_t bytes),
                   return copy(*stream_of(nullptr, kDefaultStream),
                               plan(address_of(to), from, bytes, CopyKind::kDeviceToHost),
                               Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
                   (void* to, std::uint64_t from, std::uint64_t bytes, void* stream),
                   return copy(*stream_of(stream, kDefaultStream),
                               plan(address_of(to), from, bytes, CopyKind::kDeviceToHost),
                               Blocking::kNo);)

DRIVER_STREAM_CALL(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds,
                   (std::uint64_t to, std::uint64_t from, std::uint64_t bytes),
                   return copy(*stream_of(nullptr, kDefaultStream),
                               plan(to, from, bytes, CopyKind::kDeviceToDevice), Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
                   (std::uint64_t to, std::uint64_t from, std::uint64_t bytes, void* stream),
                   return copy(*stream_of(stream, kDefaultStream),
                               plan(to, from, bytes, CopyKind::kDeviceToDevice), Blocking::kNo);)

DRIVER_STREAM_CALL(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const void* parameters),
                   return copy(*stream_of(nullptr, kDefaultStream), plan_2d(parameters),
                               Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz,
                   (const void* parameters, void* stream),
                   return copy(*stream_of(stream, kDefaultStream), plan_2d(parameters),
                               Blocking::kNo);)

DRIVER_STREAM_CALL(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const void* parameters),
                   return copy(*stream_of(nullptr, kDefaultStream), plan_2d(parameters),
                               Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const void* parameters),
                   return copy(*stream_of(nullptr, kDefaultStream), plan_3d(parameters),
                               Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,
                   (const void* parameters, void* stream),
                   return copy(*stream_of(stream, kDefaultStream), plan_3d(parameters),
                               Blocking::kNo);)

DRIVER_STREAM_CALL(cuMemcpyPeer, cuMemcpyPeer_ptds,
                   (std::uint64_t to, void* to_context, std::uint64_t from, void* from_context,
                    std::uint64_t bytes),
                   context_of(to_context);
                   context_of(from_context); return copy(*stream_of(nullptr, kDefaultStream),
                                                         plan(to, from, bytes), Blocking::kYes);)

DRIVER_STREAM_CALL(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
                   (std::uint64_t to, void* to_context, std::uint64_t from, void* from_context,
                    std::uint64_t bytes, void* stream),
                   context_of(to_context);
                   context_of(from_context); return copy(*stream_of(stream, kDefaultStream),
                                                         plan(to, from, bytes), Blocking::kNo);)

DRIVER_STREAM_CALL(cuMemsetD8_v2, cuMemsetD8_v2_ptds,
                   (std::uint64_t to, std::uint8_t value, std::uint64_t count),
                   return fill(*stream_of(nullptr, kDefaultStream),
                               plan_fill(to, value, 1, count));)

DRIVER_STREAM_CALL(cuMemsetD8Async, cuMemsetD8Async_ptsz,
                   (std::uint64_t to, std::uint8_t value, std::uint64_t count, void* stream),
                   return fill(*stream_of(stream, kDefaultStream), plan_fill(to, value, 1, count));)

DRIVER_STREAM_CALL(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds,
                   (std::uint64_t to, std::uint64_t pitch, std::uint8_t value, std::uint64_t width,
                    std::uint64_t height),
                   return fill(*stream_of(nullptr, kDefaultStream),
                               plan_fill(to, value, 1, width, height, pitch));)

DRIVER_STREAM_CALL(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz,
                   (std::uint64_t to, std::uint64_t pitch, std::uint8_t value, std::uint64_t width,
                    std::uint64_t height, void* stream),
                   return fill(*stream_of(stream, kDefaultStream),
                               plan_fill(to, value, 1, width, height, pitch));)

DRIVER_STREAM_CALL(cuMemsetD16_v2, cuMemsetD16_v2_ptds,
                   (std::uint64_t to, std::uint16_t value, std::uint64_t count),
                   return fill(*stream_of(nullptr, kDefaultStream),
                               plan_fill(to, value, 2, count));)

DRIVER_STREAM_CALL(cuMemsetD16Async, cuMemsetD16Async_ptsz,
                   (std::uint64_t to, std::uint16_t value, std::uint64_t count, void* stream),
                   return fill(*stream_of(stream, kDefaultStream), plan_fill(to, value, 2, count));)

DRIVER_STREAM_CALL(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,
                   (std::uint64_t to, std::uint64_t pitch, std::uint16_t value, std::uint64_t width,
                    std::uint64_t height),
                   return fill(*stream_of(nullptr, kDefaultStream),
                               plan_fill(to, value, 2, width, height, pitch));)

DRIVER_STREAM_CALL(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz,
                   (std::uint64_t to, std::uint64_t pitch, std::uint16_t value, std::uint64_t width,
                    std::uint64_t height, void* stream),
                   return fill(*stream_of(stream, kDefaultStream),
                               plan_fill(to, value, 2, width, height, pitch));)

DRIVER_STREAM_CALL(cuMemsetD32_v2, cuMemsetD32_v2_ptds,
                   (std::uint64_t to, std::uint32_t value, std::uint64_t count),
                   return fill(*stream_of(nullptr, kDefaultStream),
                               plan_fill(to, value, 4, count));)

DRIVER_STREAM_CALL(cuMemsetD32Async, cuMemsetD32Async_ptsz,
                   (std::uint64_t to, std::uint32_t value, std::uint64_t count, void* stream),
                   return fill(*stream_of(stream, kDefaultStream), plan_fill(to, value, 4, count));)

DRIVER_STREAM_CALL(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds,
                   (std::uint64_t to, std::uint64_t pitch, std::uint32_t value, std::uint64_t width,
                    std::uint64_t height),
                   return fill(*stream_of(nullptr, kDefaultStream),
                               plan_fill(to, value, 4, width, height, pitch));)

DRIVER_STREAM_CALL(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz,
                   (std::uint64_t to, std::uint64_t pitch, std::uint32_t value, std::uint64_t width,
                    std::uint64_t height, void* stream),
                   return fill(*stream_of(stream, kDefaultStream),
                               plan_fill(to, value, 4, width, height, pitch));)
