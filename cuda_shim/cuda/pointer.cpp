#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/memory.hpp"

using namespace warpserve::gpu;

namespace {

enum PointerAttribute : std::uint32_t {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsLegacyIpcCapable = 10,
  kRangeStart = 11,
  kRangeBytes = 12,
  kMapped = 13,
  kAllowedHandleTypes = 14,
  kIsRdmaCapable = 15,
  kAccessFlags = 16,
  kPoolHandle = 17,
  kMappingBytes = 18,
  kMappingBase = 19,
  kMemoryBlockId = 20,
};

PointerInfo known(std::uint64_t address) {
  const Result<PointerInfo> info = process_memory().query(address);
  require(info.ok() && info.value().kind != MemoryKind::kUnregistered);
  return info.value();
}

constexpr std::int32_t kInvalidOrdinal = -2;  // CU_DEVICE_INVALID

// The default of an attribute that the pointer does not have.
void tell_none(void* out, std::uint32_t attribute) {
  const auto answer = [&](auto value) { *static_cast<decltype(value)*>(out) = value; };
  switch (attribute) {
    case kDeviceOrdinal:
      return answer(kInvalidOrdinal);
    case kMemoryType:
    case kSyncMemops:
    case kIsManaged:
    case kIsLegacyIpcCapable:
    case kMapped:
    case kIsRdmaCapable:
    case kAccessFlags:
      return answer(std::uint32_t{0});
    case kContext:
    case kDevicePointer:
    case kHostPointer:
    case kBufferId:
    case kRangeStart:
    case kRangeBytes:
    case kAllowedHandleTypes:
    case kPoolHandle:
    case kMappingBytes:
    case kMappingBase:
    case kMemoryBlockId:
      return answer(std::uint64_t{0});
    default:
      fail(Error::kInvalidValue);
  }
}

bool has_host_pointer(const PointerInfo& info) {
  return info.kind == MemoryKind::kManaged || is_host(info.kind);
}

void tell(void* out, std::uint32_t attribute, std::uint64_t address, const PointerInfo& info) {
  const auto answer = [&](auto value) { *static_cast<decltype(value)*>(out) = value; };
  const bool managed = info.kind == MemoryKind::kManaged;
  switch (attribute) {
    case kContext:
      return answer(
          static_cast<void*>(Process::get().device(ordinal_of(info.device)).primary_context.get()));
    case kMemoryType:
      return answer(is_host(info.kind) ? kHostMemoryType : kDeviceMemoryType);
    case kDevicePointer:
      return answer(address);
    case kHostPointer:
      require(has_host_pointer(info));
      return answer(address);
    case kBufferId:
    case kMemoryBlockId:
      return answer(info.number);
    case kIsManaged:
      return answer(static_cast<std::int32_t>(managed));
    case kDeviceOrdinal:
      return answer(static_cast<std::int32_t>(ordinal_of(info.device)));
    case kIsLegacyIpcCapable:
      return answer(static_cast<std::int32_t>(info.kind == MemoryKind::kDevice));
    case kRangeStart:
    case kMappingBase:
      return answer(static_cast<std::uint64_t>(info.base));
    case kRangeBytes:
    case kMappingBytes:
      return answer(info.bytes);
    case kMapped:
      return answer(std::int32_t{1});
    case kSyncMemops:
    case kIsRdmaCapable:
      return answer(std::int32_t{0});
    case kAllowedHandleTypes:
      return answer(static_cast<std::uint64_t>(info.kind == MemoryKind::kMapped));
    case kAccessFlags:
      return answer(std::uint32_t{3});
    case kPoolHandle:
      return answer(info.kind == MemoryKind::kPool ? info.owner : std::uint64_t{0});
    default:
      fail(Error::kInvalidValue);
  }
}

}  // namespace

std::uint32_t cuPointerGetAttribute(void* out, std::uint32_t attribute, std::uint64_t address) {
  return driver_call([&] {
    require(out != nullptr);
    tell(out, attribute, address, known(address));
  });
}

// What the pointer does not have gets its default, and is no error.
std::uint32_t cuPointerGetAttributes(std::uint32_t count, std::uint32_t* attributes, void** out,
                                     std::uint64_t address) {
  return driver_call([&] {
    require(attributes != nullptr && out != nullptr);
    const Result<PointerInfo> info = process_memory().query(address);
    const bool known = info.ok() && info.value().kind != MemoryKind::kUnregistered;
    for (std::uint32_t i = 0; i < count; ++i) {
      require(out[i] != nullptr);
      const bool applies =
          known && (attributes[i] != kHostPointer || has_host_pointer(info.value()));
      if (applies) {
        tell(out[i], attributes[i], address, info.value());
      } else {
        tell_none(out[i], attributes[i]);
      }
    }
  });
}

std::uint32_t cuPointerSetAttribute(const void* value, std::uint32_t attribute,
                                    std::uint64_t address) {
  return driver_call([&] {
    require(value != nullptr && attribute == kSyncMemops);
    known(address);
  });
}
