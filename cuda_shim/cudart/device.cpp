#include <algorithm>
#include <cstring>

#include "cuda_shim/entry/devices.hpp"
#include "cuda_shim/entry/graph_memory.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"
#include "cuda_shim/time/capture.hpp"

using namespace warpserve::gpu;

std::uint32_t cudaGetDeviceCount(std::int32_t* count) {
  return runtime_call([&] {
    require(count != nullptr);
    *count = 0;
    *count = Process::get().device_count();
    require(*count > 0, Error::kNoDevice);
  });
}

std::uint32_t cudaGetDevice(std::int32_t* device) {
  return runtime_call([&] {
    require(device != nullptr);
    *device = Process::get().device(Thread::get().current_device()).ordinal;
  });
}

std::uint32_t cudaSetDevice(std::int32_t device) {
  return runtime_call([&] { Thread::get().set_device(Process::get().device(device)); });
}

std::uint32_t cudaInitDevice(std::int32_t device, std::uint32_t, std::uint32_t) {
  return runtime_call([&] { Process::get().device(device).retain_for_runtime(); });
}

std::uint32_t cudaSetValidDevices(std::int32_t* devices, std::int32_t count) {
  return runtime_call([&] {
    require(devices != nullptr || count == 0);
    for (std::int32_t i = 0; i < count; ++i) Process::get().device(devices[i]);
  });
}

std::uint32_t cudaChooseDevice(std::int32_t* device, const void* properties) {
  return runtime_call([&] {
    require(device != nullptr && properties != nullptr);
    *device = Process::get().device(0).ordinal;
  });
}

#if WARPSERVE_CUDA_MAJOR == 12
std::uint32_t cudaGetDeviceProperties_v2(void* properties, std::int32_t device) {
#else
std::uint32_t cudaGetDeviceProperties(void* properties, std::int32_t device) {
#endif
  return runtime_call([&] {
    require(properties != nullptr);
    const auto& bytes = Process::get().profile(device).properties.at(WARPSERVE_CUDA_MAJOR);
    std::memcpy(properties, bytes.data(), bytes.size());
  });
}

std::uint32_t cudaDeviceGetAttribute(std::int32_t* value, std::uint32_t attribute,
                                     std::int32_t device) {
  return runtime_call([&] {
    require(value != nullptr);
    *value = Process::get().attribute(static_cast<int>(attribute), device);
  });
}

std::uint32_t cudaGetDeviceFlags(std::uint32_t* flags) {
  return runtime_call([&] {
    require(flags != nullptr);
    Device& device = current_device();
    const std::lock_guard lock(device.mutex);
    *flags = device.primary_flags;
  });
}

std::uint32_t cudaSetDeviceFlags(std::uint32_t flags) {
  return runtime_call(
      [&] { set_primary_flags(Process::get().device(Thread::get().current_device()), flags); });
}

std::uint32_t cudaDeviceSynchronize() {
  return runtime_call([] { return synchronize(current_device()); });
}

std::uint32_t cudaDeviceReset() {
  return runtime_call([] { reset_device(Process::get().device(Thread::get().current_device())); });
}

std::uint32_t cudaDeviceGetPCIBusId(char* id, std::int32_t capacity, std::int32_t device) {
  return runtime_call([&] { copy_text(id, capacity, Process::get().profile(device).pci_bus_id); });
}

std::uint32_t cudaDeviceGetByPCIBusId(std::int32_t* device, const char* id) {
  return runtime_call([&] {
    require(device != nullptr);
    *device = device_by_pci_bus_id(id);
  });
}

std::uint32_t cudaDeviceCanAccessPeer(std::int32_t* answer, std::int32_t device,
                                      std::int32_t peer) {
  return runtime_call([&] {
    require(answer != nullptr);
    *answer = can_access_peer(device, peer);
  });
}

std::uint32_t cudaDeviceGetP2PAttribute(std::int32_t* value, std::uint32_t attribute,
                                        std::int32_t from, std::int32_t to) {
  return runtime_call([&] {
    require(value != nullptr);
    *value = peer_attribute(attribute, from, to);
  });
}

std::uint32_t cudaDeviceEnablePeerAccess(std::int32_t peer, std::uint32_t flags) {
  return runtime_call([&] {
    require(flags == 0);
    enable_peer_access(current_device(), peer);
  });
}

std::uint32_t cudaDeviceDisablePeerAccess(std::int32_t peer) {
  return runtime_call([&] { disable_peer_access(current_device(), peer); });
}

std::uint32_t cudaDeviceGetLimit(std::uint64_t* value, std::uint32_t number) {
  return runtime_call([&] {
    require(value != nullptr);
    *value = limit(current_device(), number);
  });
}

std::uint32_t cudaDeviceSetLimit(std::uint32_t number, std::uint64_t value) {
  return runtime_call([&] { set_limit(current_device(), number, value); });
}

std::uint32_t cudaDeviceGetCacheConfig(std::uint32_t* config) {
  return runtime_call([&] {
    require(config != nullptr);
    *config = 0;
  });
}

std::uint32_t cudaDeviceGetSharedMemConfig(std::uint32_t* config) {
  return runtime_call([&] {
    require(config != nullptr);
    *config = 1;
  });
}

std::uint32_t cudaDeviceGetStreamPriorityRange(std::int32_t* least, std::int32_t* greatest) {
  return runtime_call([&] {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
  });
}

std::uint32_t cudaDeviceGetGraphMemAttribute(std::int32_t device, std::uint32_t attribute,
                                             void* value) {
  return runtime_call([&] {
    const Device& asked = Process::get().device(device);
    require(value != nullptr);
    *static_cast<std::uint64_t*>(value) = graph_memory_attribute(asked, attribute);
  });
}

std::uint32_t cudaDeviceSetGraphMemAttribute(std::int32_t device, std::uint32_t attribute,
                                             void* value) {
  return runtime_call([&] {
    const Device& asked = Process::get().device(device);
    require(value != nullptr);
    reset_graph_memory_high_water(asked, attribute, *static_cast<std::uint64_t*>(value));
  });
}

std::uint32_t cudaDeviceGraphMemTrim(std::int32_t device) {
  return runtime_call([&] { trim_graph_memory(Process::get().device(device)); });
}
