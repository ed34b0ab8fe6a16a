#include "cuda_shim/entry/devices.hpp"
#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/graph_memory.hpp"

using namespace warpserve::gpu;

namespace {

constexpr int kComputeCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kComputeCapabilityMinor = 76;

}  // namespace

std::uint32_t cuDeviceGetCount(std::int32_t* count) {
  return driver_call([&] {
    require(count != nullptr);
    *count = Process::get().device_count();
  });
}

std::uint32_t cuDeviceGet(std::int32_t* device, std::int32_t ordinal) {
  return driver_call([&] {
    require(device != nullptr);
    *device = Process::get().device(ordinal).ordinal;
  });
}

// Some bytes of the name are better than none, as the driver has it.
std::uint32_t cuDeviceGetName(char* name, std::int32_t capacity, std::int32_t device) {
  return driver_call([&] {
    Process::get().device(device);
    require(name != nullptr && capacity > 0);
    const auto room = static_cast<std::size_t>(capacity - 1);
    copy_text(name, capacity, Process::get().machine().gpu().name.substr(0, room));
  });
}

std::uint32_t cuDeviceGetUuid(void* uuid, std::int32_t device) {
  return driver_call([&] { copy_uuid(uuid, Process::get().profile(device).uuid); });
}

std::uint32_t cuDeviceGetUuid_v2(void* uuid, std::int32_t device) {
  return driver_call([&] { copy_uuid(uuid, Process::get().profile(device).uuid); });
}

std::uint32_t cuDeviceTotalMem_v2(std::uint64_t* bytes, std::int32_t device) {
  return driver_call([&] {
    Process::get().device(device);
    require(bytes != nullptr);
    *bytes = Process::get().machine().gpu().memory_usable_bytes;
  });
}

std::uint32_t cuDeviceGetAttribute(std::int32_t* value, std::uint32_t attribute,
                                   std::int32_t device) {
  return driver_call([&] {
    require(value != nullptr);
    *value = Process::get().attribute(static_cast<int>(attribute), device);
  });
}

std::uint32_t cuDeviceComputeCapability(std::int32_t* major, std::int32_t* minor,
                                        std::int32_t device) {
  return driver_call([&] {
    require(major != nullptr && minor != nullptr);
    *major = Process::get().attribute(kComputeCapabilityMajor, device);
    *minor = Process::get().attribute(kComputeCapabilityMinor, device);
  });
}

std::uint32_t cuDeviceGetPCIBusId(char* id, std::int32_t capacity, std::int32_t device) {
  return driver_call([&] { copy_text(id, capacity, Process::get().profile(device).pci_bus_id); });
}

std::uint32_t cuDeviceGetByPCIBusId(std::int32_t* device, const char* id) {
  return driver_call([&] {
    require(device != nullptr);
    *device = device_by_pci_bus_id(id);
  });
}

std::uint32_t cuDeviceCanAccessPeer(std::int32_t* answer, std::int32_t device, std::int32_t peer) {
  return driver_call([&] {
    require(answer != nullptr);
    *answer = can_access_peer(device, peer);
  });
}

std::uint32_t cuDeviceGetP2PAttribute(std::int32_t* value, std::uint32_t attribute,
                                      std::int32_t from, std::int32_t to) {
  return driver_call([&] {
    require(value != nullptr);
    *value = peer_attribute(attribute, from, to);
  });
}

std::uint32_t cuDeviceGetExecAffinitySupport(std::int32_t* answer, std::uint32_t,
                                             std::int32_t device) {
  return driver_call([&] {
    Process::get().device(device);
    require(answer != nullptr);
    *answer = 0;
  });
}

std::uint32_t cuDeviceGetGraphMemAttribute(std::int32_t device, std::uint32_t attribute,
                                           void* value) {
  return driver_call([&] {
    const Device& asked = Process::get().device(device);
    require(value != nullptr);
    *static_cast<std::uint64_t*>(value) = graph_memory_attribute(asked, attribute);
  });
}

std::uint32_t cuDeviceSetGraphMemAttribute(std::int32_t device, std::uint32_t attribute,
                                           void* value) {
  return driver_call([&] {
    const Device& asked = Process::get().device(device);
    require(value != nullptr);
    reset_graph_memory_high_water(asked, attribute, *static_cast<std::uint64_t*>(value));
  });
}

std::uint32_t cuDeviceGraphMemTrim(std::int32_t device) {
  return driver_call([&] { trim_graph_memory(Process::get().device(device)); });
}
