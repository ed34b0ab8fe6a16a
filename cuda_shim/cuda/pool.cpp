#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/pools.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

DRIVER_STREAM_CALL(cuMemAllocAsync, cuMemAllocAsync_ptsz,
                   (std::uint64_t* out, std::uint64_t bytes, void* stream), require(out != nullptr);
                   *out = allocate_in_order(*stream_of(stream, kDefaultStream), bytes);)

DRIVER_STREAM_CALL(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
                   (std::uint64_t* out, std::uint64_t bytes, void* pool, void* stream),
                   require(out != nullptr);
                   *out = allocate_in_order(*stream_of(stream, kDefaultStream), bytes,
                                            pool_of(pool));)

DRIVER_STREAM_CALL(cuMemFreeAsync, cuMemFreeAsync_ptsz, (std::uint64_t address, void* stream),
                   free_in_order(*stream_of(stream, kDefaultStream), address);)

std::uint32_t cuMemPoolCreate(void** pool, const void* properties) {
  return driver_call([&] {
    require(pool != nullptr && properties != nullptr);
    *pool = create_pool(*static_cast<const PoolProperties*>(properties));
  });
}

std::uint32_t cuMemPoolDestroy(void* pool) {
  return driver_call([&] { expect(process_memory().pools().destroy(pool_of(pool))); });
}

std::uint32_t cuMemPoolTrimTo(void* pool, std::uint64_t keep_bytes) {
  return driver_call([&] { expect(process_memory().pools().trim_to(pool_of(pool), keep_bytes)); });
}

std::uint32_t cuMemPoolGetAttribute(void* pool, std::uint32_t attribute, void* value) {
  return driver_call([&] { get_pool_attribute(pool_of(pool), attribute, value); });
}

std::uint32_t cuMemPoolSetAttribute(void* pool, std::uint32_t attribute, void* value) {
  return driver_call([&] { set_pool_attribute(pool_of(pool), attribute, value); });
}

std::uint32_t cuMemPoolSetAccess(void* pool, const void* access, std::uint64_t count) {
  return driver_call([&] {
    pool_of(pool);
    require(access != nullptr || count == 0);
  });
}

std::uint32_t cuDeviceGetDefaultMemPool(void** pool, std::int32_t device) {
  return driver_call([&] {
    require(pool != nullptr);
    *pool = pool_handle(
        value_of(process_memory().pools().default_pool(Process::get().device(device).physical)));
  });
}

std::uint32_t cuDeviceGetMemPool(void** pool, std::int32_t device) {
  return driver_call([&] {
    require(pool != nullptr);
    *pool = pool_handle(
        value_of(process_memory().pools().current(Process::get().device(device).physical)));
  });
}

std::uint32_t cuDeviceSetMemPool(std::int32_t device, void* pool) {
  return driver_call([&] {
    expect(process_memory().pools().set_current(Process::get().device(device).physical,
                                                pool_of(pool)));
  });
}
