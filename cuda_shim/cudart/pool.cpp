#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/pools.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

RUNTIME_STREAM_CALL(cudaMallocAsync, cudaMallocAsync_ptsz,
                    (void** out, std::uint64_t bytes, void* stream), require(out != nullptr);
                    *out = pointer(allocate_in_order(*stream_of(stream, kDefaultStream), bytes));)

RUNTIME_STREAM_CALL(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz,
                    (void** out, std::uint64_t bytes, void* pool, void* stream),
                    require(out != nullptr);
                    *out = pointer(allocate_in_order(*stream_of(stream, kDefaultStream), bytes,
                                                     pool_of(pool)));)

RUNTIME_STREAM_CALL(cudaFreeAsync, cudaFreeAsync_ptsz, (void* address, void* stream),
                    free_in_order(*stream_of(stream, kDefaultStream), address_of(address));)

std::uint32_t cudaMemPoolCreate(void** pool, const void* properties) {
  return runtime_call([&] {
    require(pool != nullptr && properties != nullptr);
    *pool = create_pool(*static_cast<const PoolProperties*>(properties));
  });
}

std::uint32_t cudaMemPoolDestroy(void* pool) {
  return runtime_call([&] { expect(process_memory().pools().destroy(pool_of(pool))); });
}

std::uint32_t cudaMemPoolTrimTo(void* pool, std::uint64_t keep_bytes) {
  return runtime_call([&] { expect(process_memory().pools().trim_to(pool_of(pool), keep_bytes)); });
}

std::uint32_t cudaMemPoolGetAttribute(void* pool, std::uint32_t attribute, void* value) {
  return runtime_call([&] { get_pool_attribute(pool_of(pool), attribute, value); });
}

std::uint32_t cudaMemPoolSetAttribute(void* pool, std::uint32_t attribute, void* value) {
  return runtime_call([&] { set_pool_attribute(pool_of(pool), attribute, value); });
}

std::uint32_t cudaMemPoolSetAccess(void* pool, const void* access, std::uint64_t count) {
  return runtime_call([&] {
    pool_of(pool);
    require(access != nullptr || count == 0);
  });
}

std::uint32_t cudaDeviceGetDefaultMemPool(void** pool, std::int32_t device) {
  return runtime_call([&] {
    require(pool != nullptr);
    *pool = pool_handle(
        value_of(process_memory().pools().default_pool(Process::get().device(device).physical)));
  });
}

std::uint32_t cudaDeviceGetMemPool(void** pool, std::int32_t device) {
  return runtime_call([&] {
    require(pool != nullptr);
    *pool = pool_handle(
        value_of(process_memory().pools().current(Process::get().device(device).physical)));
  });
}

std::uint32_t cudaDeviceSetMemPool(std::int32_t device, void* pool) {
  return runtime_call([&] {
    expect(process_memory().pools().set_current(Process::get().device(device).physical,
                                                pool_of(pool)));
  });
}
