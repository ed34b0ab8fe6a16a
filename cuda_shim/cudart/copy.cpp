#include <bit>
#include <vector>

#include "cuda_shim/entry/kernels.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

// cudaPitchedPtr, cudaExtent, cudaPos and cudaMemcpy3DParms.
struct PitchedPointer {
  void* address;
  std::uint64_t pitch_bytes, width_bytes, height;
};
struct Extent {
  std::uint64_t width, height, depth;
};
struct Copy3d {
  void* from_array;
  Extent from_position;
  PitchedPointer from;
  void* to_array;
  Extent to_position;
  PitchedPointer to;
  Extent extent;
  std::uint32_t kind;
};

constexpr std::uint32_t kInferKind = 4;  // cudaMemcpyDefault

CopyPlan plan(const void* to, const void* from, std::uint64_t bytes, std::uint32_t kind) {
  return value_of(
      process_memory().copies().plan(address_of(to), address_of(from), bytes, copy_kind_of(kind)));
}

// Of a batch of `count` copies, by what the three arrays say of each.
std::vector<CopyPlan> plans(const auto* to, const auto* from, const std::uint64_t* bytes,
                            std::uint64_t count) {
  require((to != nullptr && from != nullptr && bytes != nullptr) || count == 0);
  std::vector<CopyPlan> all;
  all.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    all.push_back(plan(to[i], from[i], bytes[i], kInferKind));
  }
  return all;
}

CopyPlan plan_2d(const void* to, std::uint64_t to_pitch_bytes, const void* from,
                 std::uint64_t from_pitch_bytes, std::uint64_t width_bytes, std::uint64_t rows,
                 std::uint32_t kind) {
  return value_of(process_memory().copies().plan({.to = address_of(to),
                                                  .from = address_of(from),
                                                  .width_bytes = width_bytes,
                                                  .rows = rows,
                                                  .to_pitch_bytes = to_pitch_bytes,
                                                  .from_pitch_bytes = from_pitch_bytes},
                                                 copy_kind_of(kind)));
}

Address corner(const PitchedPointer& base, const Extent& position) {
  return address_of(base.address) + position.width +
         base.pitch_bytes * (position.height + base.height * position.depth);
}

CopyPlan plan_3d(const void* parameters) {
  require(parameters != nullptr);
  const auto& copy = *static_cast<const Copy3d*>(parameters);
  require(copy.from_array == nullptr && copy.to_array == nullptr, Error::kNotSupported);
  return value_of(process_memory().copies().plan(
      {.to = corner(copy.to, copy.to_position),
       .from = corner(copy.from, copy.from_position),
       .width_bytes = copy.extent.width,
       .rows = copy.extent.height,
       .slices = copy.extent.depth,
       .to_pitch_bytes = copy.to.pitch_bytes,
       .from_pitch_bytes = copy.from.pitch_bytes,
       .to_slice_pitch_bytes = copy.to.pitch_bytes * copy.to.height,
       .from_slice_pitch_bytes = copy.from.pitch_bytes * copy.from.height},
      copy_kind_of(copy.kind)));
}

FillPlan plan_fill(const void* to, std::int32_t value, std::uint64_t bytes) {
  return value_of(
      process_memory().copies().plan_fill(address_of(to), static_cast<std::uint8_t>(value), bytes));
}

FillPlan plan_fill_2d(const void* to, std::uint64_t pitch_bytes, std::int32_t value,
                      std::uint64_t width_bytes, std::uint64_t rows) {
  return value_of(process_memory().copies().plan_fill({.to = address_of(to),
                                                       .value = static_cast<std::uint8_t>(value),
                                                       .elements = width_bytes,
                                                       .rows = rows,
                                                       .pitch_bytes = pitch_bytes}));
}

FillPlan plan_fill_3d(const warpserve::cuda_shim::abi::cudaPitchedPtr& pitched, std::int32_t value,
                      const warpserve::cuda_shim::abi::cudaExtent& extent) {
  const auto to = std::bit_cast<PitchedPointer>(pitched);
  const auto size = std::bit_cast<Extent>(extent);
  return value_of(
      process_memory().copies().plan_fill({.to = address_of(to.address),
                                           .value = static_cast<std::uint8_t>(value),
                                           .elements = size.width,
                                           .rows = size.height,
                                           .slices = size.depth,
                                           .pitch_bytes = to.pitch_bytes,
                                           .slice_pitch_bytes = to.pitch_bytes * to.height}));
}

Address symbol_at(const void* symbol, std::uint64_t bytes, std::uint64_t offset) {
  Symbols& symbols = registered_symbols();
  const Result<std::uint64_t> size = symbols.size(address_of(symbol));
  require(size.ok(), Error::kInvalidSymbol);
  require(offset <= size.value() && bytes <= size.value() - offset);
  return value_of(symbols.address(address_of(symbol), current_device().physical)) + offset;
}

}  // namespace

RUNTIME_STREAM_CALL(cudaMemcpy, cudaMemcpy_ptds,
                    (void* to, const void* from, std::uint64_t bytes, std::uint32_t kind),
                    return copy(*stream_of(nullptr, kDefaultStream), plan(to, from, bytes, kind),
                                Blocking::kYes);)

RUNTIME_STREAM_CALL(cudaMemcpyAsync, cudaMemcpyAsync_ptsz,
                    (void* to, const void* from, std::uint64_t bytes, std::uint32_t kind,
                     void* stream),
                    return copy(*stream_of(stream, kDefaultStream), plan(to, from, bytes, kind),
                                Blocking::kNo);)

RUNTIME_STREAM_CALL(cudaMemcpy2D, cudaMemcpy2D_ptds,
                    (void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                     std::uint64_t width, std::uint64_t height, std::uint32_t kind),
                    return copy(*stream_of(nullptr, kDefaultStream),
                                plan_2d(to, to_pitch, from, from_pitch, width, height, kind),
                                Blocking::kYes);)

RUNTIME_STREAM_CALL(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz,
                    (void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                     std::uint64_t width, std::uint64_t height, std::uint32_t kind, void* stream),
                    return copy(*stream_of(stream, kDefaultStream),
                                plan_2d(to, to_pitch, from, from_pitch, width, height, kind),
                                Blocking::kNo);)

RUNTIME_STREAM_CALL(cudaMemcpy3D, cudaMemcpy3D_ptds, (const void* parameters),
                    return copy(*stream_of(nullptr, kDefaultStream), plan_3d(parameters),
                                Blocking::kYes);)

RUNTIME_STREAM_CALL(cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz,
                    (const void* parameters, void* stream),
                    return copy(*stream_of(stream, kDefaultStream), plan_3d(parameters),
                                Blocking::kNo);)

std::uint32_t cudaMemcpyPeer(void* to, std::int32_t to_device, const void* from,
                             std::int32_t from_device, std::uint64_t bytes) {
  return runtime_call([&] {
    Process::get().device(to_device);
    Process::get().device(from_device);
    return copy(*stream_of(nullptr), plan(to, from, bytes, kInferKind), Blocking::kYes);
  });
}

std::uint32_t cudaMemcpyPeerAsync(void* to, std::int32_t to_device, const void* from,
                                  std::int32_t from_device, std::uint64_t bytes, void* stream) {
  return runtime_call([&] {
    Process::get().device(to_device);
    Process::get().device(from_device);
    return copy(*stream_of(stream), plan(to, from, bytes, kInferKind), Blocking::kNo);
  });
}

RUNTIME_STREAM_CALL(cudaMemset, cudaMemset_ptds,
                    (void* to, std::int32_t value, std::uint64_t bytes),
                    return fill(*stream_of(nullptr, kDefaultStream), plan_fill(to, value, bytes));)

RUNTIME_STREAM_CALL(cudaMemsetAsync, cudaMemsetAsync_ptsz,
                    (void* to, std::int32_t value, std::uint64_t bytes, void* stream),
                    return fill(*stream_of(stream, kDefaultStream), plan_fill(to, value, bytes));)

RUNTIME_STREAM_CALL(cudaMemset2D, cudaMemset2D_ptds,
                    (void* to, std::uint64_t pitch, std::int32_t value, std::uint64_t width,
                     std::uint64_t height),
                    return fill(*stream_of(nullptr, kDefaultStream),
                                plan_fill_2d(to, pitch, value, width, height));)

RUNTIME_STREAM_CALL(cudaMemset2DAsync, cudaMemset2DAsync_ptsz,
                    (void* to, std::uint64_t pitch, std::int32_t value, std::uint64_t width,
                     std::uint64_t height, void* stream),
                    return fill(*stream_of(stream, kDefaultStream),
                                plan_fill_2d(to, pitch, value, width, height));)

RUNTIME_STREAM_CALL(cudaMemset3D, cudaMemset3D_ptds,
                    (warpserve::cuda_shim::abi::cudaPitchedPtr to, std::int32_t value,
                     warpserve::cuda_shim::abi::cudaExtent extent),
                    return fill(*stream_of(nullptr, kDefaultStream),
                                plan_fill_3d(to, value, extent));)

RUNTIME_STREAM_CALL(cudaMemset3DAsync, cudaMemset3DAsync_ptsz,
                    (warpserve::cuda_shim::abi::cudaPitchedPtr to, std::int32_t value,
                     warpserve::cuda_shim::abi::cudaExtent extent, void* stream),
                    return fill(*stream_of(stream, kDefaultStream),
                                plan_fill_3d(to, value, extent));)

#if WARPSERVE_CUDA_MAJOR == 12
RUNTIME_STREAM_CALL(cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz,
                    (void** to, void** from, std::uint64_t* bytes, std::uint64_t count, void*,
                     std::uint64_t*, std::uint64_t, std::uint64_t*, void* stream),
                    return copy_batch(*stream_of(stream, kDefaultStream),
                                      plans(to, from, bytes, count));)

#else
RUNTIME_STREAM_CALL(cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz,
                    (void* const* to, const void* const* from, const std::uint64_t* bytes,
                     std::uint64_t count, void*, std::uint64_t*, std::uint64_t, void* stream),
                    return copy_batch(*stream_of(stream, kDefaultStream),
                                      plans(to, from, bytes, count));)

#endif

RUNTIME_STREAM_CALL(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds,
                    (const void* symbol, const void* from, std::uint64_t bytes,
                     std::uint64_t offset, std::uint32_t kind),
                    return copy(*stream_of(nullptr, kDefaultStream),
                                plan(pointer(symbol_at(symbol, bytes, offset)), from, bytes, kind),
                                Blocking::kYes);)

RUNTIME_STREAM_CALL(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz,
                    (const void* symbol, const void* from, std::uint64_t bytes,
                     std::uint64_t offset, std::uint32_t kind, void* stream),
                    return copy(*stream_of(stream, kDefaultStream),
                                plan(pointer(symbol_at(symbol, bytes, offset)), from, bytes, kind),
                                Blocking::kNo);)

RUNTIME_STREAM_CALL(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds,
                    (void* to, const void* symbol, std::uint64_t bytes, std::uint64_t offset,
                     std::uint32_t kind),
                    return copy(*stream_of(nullptr, kDefaultStream),
                                plan(to, pointer(symbol_at(symbol, bytes, offset)), bytes, kind),
                                Blocking::kYes);)

RUNTIME_STREAM_CALL(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz,
                    (void* to, const void* symbol, std::uint64_t bytes, std::uint64_t offset,
                     std::uint32_t kind, void* stream),
                    return copy(*stream_of(stream, kDefaultStream),
                                plan(to, pointer(symbol_at(symbol, bytes, offset)), bytes, kind),
                                Blocking::kNo);)
