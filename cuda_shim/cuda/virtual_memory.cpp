#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/memory.hpp"

using namespace warpserve::gpu;

namespace {

constexpr std::uint32_t kPinnedAllocation = 1;
// Of CUmemLocationType.
constexpr std::uint32_t kDeviceLocation = 1;
constexpr std::uint32_t kHostLocation = 2;
constexpr std::uint32_t kHostNumaLocation = 3;
constexpr int kHostNumaId = 134;               // of CUdevice_attribute
constexpr std::uint32_t kPosixDescriptor = 1;  // of CUmemAllocationHandleType

// CUmemAllocationProp.
struct AllocationProperties {
  std::uint32_t type;
  std::uint32_t handle_types;
  std::uint32_t location_type;
  std::int32_t location_id;
  void* windows;
  unsigned char flags[8];
};
static_assert(sizeof(AllocationProperties) == 32);

// CUmemAccessDesc and CUmemLocation.
struct AccessDescription {
  std::uint32_t location_type;
  std::int32_t location_id;
  std::uint32_t access;
};
struct Location {
  std::uint32_t type;
  std::int32_t id;
};

VirtualMemory& memory() {
  return process_memory().virtual_memory();
}

PhysicalId known(std::uint64_t handle) {
  require(memory().info({handle}).ok());
  return {handle};
}

bool is_numa_node(std::int32_t id) {
  Process& process = Process::get();
  for (int device = 0; device < process.device_count(); ++device) {
    if (process.attribute(kHostNumaId, device) == id) return true;
  }
  return id == 0;
}

// kNoDevice for the host.
int physical_device(std::uint32_t location_type, std::int32_t location_id) {
  if (location_type == kHostLocation) return kNoDevice;
  if (location_type == kHostNumaLocation) {
    require(is_numa_node(location_id), Error::kInvalidDevice);
    return kNoDevice;
  }
  require(location_type == kDeviceLocation);
  return Process::get().device(location_id).physical;
}

const AllocationProperties& checked(const void* properties) {
  require(properties != nullptr);
  const auto& asked = *static_cast<const AllocationProperties*>(properties);
  require(asked.type == kPinnedAllocation);
  physical_device(asked.location_type, asked.location_id);
  return asked;
}

}  // namespace

std::uint32_t cuMemAddressReserve(std::uint64_t* address, std::uint64_t bytes,
                                  std::uint64_t alignment, std::uint64_t, std::uint64_t flags) {
  return driver_call([&] {
    require(address != nullptr && flags == 0);
    *address = value_of(memory().reserve(bytes, alignment));
  });
}

std::uint32_t cuMemAddressFree(std::uint64_t address, std::uint64_t bytes) {
  return driver_call([&] { expect(memory().free_reservation(address, bytes)); });
}

std::uint32_t cuMemCreate(std::uint64_t* handle, std::uint64_t bytes, const void* properties,
                          std::uint64_t flags) {
  return driver_call([&] {
    require(handle != nullptr && flags == 0);
    const AllocationProperties& asked = checked(properties);
    require((asked.handle_types & ~kPosixDescriptor) == 0, Error::kNotSupported);
    const int device = physical_device(asked.location_type, asked.location_id);
    if (device != kNoDevice) Process::get().device(asked.location_id).open();
    *handle = value_of(memory().create(device, bytes, asked.handle_types != 0)).value;
  });
}

std::uint32_t cuMemRelease(std::uint64_t handle) {
  return driver_call([&] { expect(memory().release(known(handle))); });
}

std::uint32_t cuMemRetainAllocationHandle(std::uint64_t* handle, void* address) {
  return driver_call([&] {
    require(handle != nullptr);
    *handle = value_of(memory().retain(address_of(address))).value;
  });
}

std::uint32_t cuMemMap(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
                       std::uint64_t handle, std::uint64_t flags) {
  return driver_call([&] {
    require(offset == 0 && flags == 0);
    expect(memory().map(address, bytes, known(handle)));
  });
}

std::uint32_t cuMemUnmap(std::uint64_t address, std::uint64_t bytes) {
  return driver_call([&] { expect(memory().unmap(address, bytes)); });
}

std::uint32_t cuMemSetAccess(std::uint64_t address, std::uint64_t bytes, const void* descriptions,
                             std::uint64_t count) {
  return driver_call([&] {
    require(descriptions != nullptr && count > 0);
    const auto* const asked = static_cast<const AccessDescription*>(descriptions);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto& [type, id, access] = asked[i];
      require(access == 0 || access == 1 || access == 3);
      expect(memory().set_access(address, bytes, physical_device(type, id),
                                 static_cast<Access>(access)));
    }
  });
}

std::uint32_t cuMemGetAccess(std::uint64_t* flags, const void* location, std::uint64_t address) {
  return driver_call([&] {
    require(flags != nullptr && location != nullptr);
    const auto& [type, id] = *static_cast<const Location*>(location);
    *flags =
        static_cast<std::uint64_t>(value_of(memory().access(address, physical_device(type, id))));
  });
}

std::uint32_t cuMemGetAllocationGranularity(std::uint64_t* bytes, const void* properties,
                                            std::uint32_t) {
  return driver_call([&] {
    require(bytes != nullptr);
    checked(properties);
    *bytes = memory().granularity_bytes();
  });
}

std::uint32_t cuMemGetAllocationPropertiesFromHandle(void* properties, std::uint64_t handle) {
  return driver_call([&] {
    require(properties != nullptr);
    const PhysicalInfo info = value_of(memory().info(known(handle)));
    *static_cast<AllocationProperties*>(properties) = {
        .type = kPinnedAllocation,
        .handle_types = info.exportable ? kPosixDescriptor : 0,
        .location_type = info.device == kNoDevice ? kHostLocation : kDeviceLocation,
        .location_id = info.device == kNoDevice ? 0 : ordinal_of(info.device)};
  });
}

std::uint32_t cuMemExportToShareableHandle(void* shareable, std::uint64_t handle,
                                           std::uint32_t type, std::uint64_t flags) {
  return driver_call([&] {
    require(shareable != nullptr && flags == 0);
    require(type == kPosixDescriptor, Error::kNotSupported);
    *static_cast<std::int32_t*>(shareable) = value_of(memory().export_descriptor(known(handle)));
  });
}

std::uint32_t cuMemImportFromShareableHandle(std::uint64_t* handle, void* shareable,
                                             std::uint32_t type) {
  return driver_call([&] {
    require(handle != nullptr);
    require(type == kPosixDescriptor, Error::kNotSupported);
    const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
    *handle = value_of(memory().import_descriptor(descriptor)).value;
  });
}
