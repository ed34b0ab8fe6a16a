#include "cuda_shim/entry/memory.hpp"

#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

PointerInfo pinned_info(void* host) {
  const PointerInfo info = value_of(process_memory().query(address_of(host)));
  require(info.kind == MemoryKind::kPinned || info.kind == MemoryKind::kRegistered);
  return info;
}

Error allocate_pinned(void** out, std::uint64_t bytes, std::uint32_t flags) {
  require(out != nullptr && bytes > 0 && (flags & ~0x7U) == 0);
  refuse_in_capture();
  *out =
      pointer(value_of(process_memory().host().allocate(current_device().physical, bytes, flags)));
  return Error::kSuccess;
}

}  // namespace

std::uint32_t cuMemAlloc_v2(std::uint64_t* out, std::uint64_t bytes) {
  return driver_call([&] {
    require(out != nullptr && bytes > 0);
    refuse_in_capture();
    *out = value_of(process_memory().allocate(current_device().physical, bytes));
  });
}

std::uint32_t cuMemFree_v2(std::uint64_t address) {
  return driver_call([&] { free_memory(address); });
}

std::uint32_t cuMemAllocPitch_v2(std::uint64_t* out, std::uint64_t* pitch_bytes,
                                 std::uint64_t width_bytes, std::uint64_t height,
                                 std::uint32_t element_bytes) {
  return driver_call([&] {
    require(out != nullptr && pitch_bytes != nullptr);
    require(element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
    refuse_in_capture();
    const PitchedAllocation made =
        value_of(process_memory().allocate_pitched(current_device().physical, width_bytes, height));
    *out = made.address;
    *pitch_bytes = made.pitch_bytes;
  });
}

std::uint32_t cuMemAllocManaged(std::uint64_t* out, std::uint64_t bytes, std::uint32_t flags) {
  return driver_call([&] {
    require(out != nullptr && bytes > 0 && (flags & ~0x7U) == 0);
    refuse_in_capture();
    *out =
        value_of(process_memory().host().allocate_managed(current_device().physical, bytes, flags));
  });
}

std::uint32_t cuMemAllocHost_v2(void** out, std::uint64_t bytes) {
  return driver_call([&] { return allocate_pinned(out, bytes, 0); });
}

std::uint32_t cuMemHostAlloc(void** out, std::uint64_t bytes, std::uint32_t flags) {
  return driver_call([&] { return allocate_pinned(out, bytes, flags); });
}

std::uint32_t cuMemFreeHost(void* address) {
  return driver_call([&] {
    require(address != nullptr);
    free_pinned(address_of(address));
  });
}

std::uint32_t cuMemHostRegister_v2(void* address, std::uint64_t bytes, std::uint32_t flags) {
  return driver_call([&] {
    require(address != nullptr && bytes > 0);
    expect(process_memory().host().register_range(current_device().physical, address_of(address),
                                                  bytes, flags));
  });
}

std::uint32_t cuMemHostUnregister(void* address) {
  return driver_call([&] {
    require(address != nullptr);
    expect(process_memory().host().unregister(address_of(address)));
  });
}

std::uint32_t cuMemHostGetDevicePointer_v2(std::uint64_t* device_pointer, void* host,
                                           std::uint32_t flags) {
  return driver_call([&] {
    require(device_pointer != nullptr && flags == 0);
    pinned_info(host);
    *device_pointer = address_of(host);
  });
}

std::uint32_t cuMemHostGetFlags(std::uint32_t* flags, void* host) {
  return driver_call([&] {
    require(flags != nullptr);
    *flags = pinned_info(host).flags;
  });
}

std::uint32_t cuMemGetInfo_v2(std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  return driver_call([&] {
    require(free_bytes != nullptr && total_bytes != nullptr);
    const MemoryInfo info = value_of(process_memory().info(current_device().physical));
    *free_bytes = info.free_bytes;
    *total_bytes = info.total_bytes;
  });
}

std::uint32_t cuMemGetAddressRange_v2(std::uint64_t* base, std::uint64_t* bytes,
                                      std::uint64_t address) {
  return driver_call([&] {
    const PointerInfo info = value_of(process_memory().query(address));
    require(info.kind != MemoryKind::kUnregistered, Error::kNotFound);
    if (base != nullptr) *base = info.base;
    if (bytes != nullptr) *bytes = info.bytes;
  });
}

DRIVER_STREAM_CALL(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
                   (std::uint64_t address, std::uint64_t bytes, std::int32_t, void* stream),
                   return prefetch(*stream_of(stream, kDefaultStream), address, bytes);)

DRIVER_STREAM_CALL(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
                   (std::uint64_t address, std::uint64_t bytes,
                    warpserve::cuda_shim::abi::CUmemLocation, std::uint32_t, void* stream),
                   return prefetch(*stream_of(stream, kDefaultStream), address, bytes);)
