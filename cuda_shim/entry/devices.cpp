#include "cuda_shim/entry/devices.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>

#include "cuda_shim/entry/handles.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"

namespace warpserve::gpu {
namespace {

enum PeerAttribute : std::uint32_t {
  kPerformanceRank = 1,
  kAccessSupported = 2,
  kNativeAtomicSupported = 3,
  kArrayAccessSupported = 4,
};

// The values with which a context begins, by number; sources: CUDA programming guide, and what
// cudaDeviceGetLimit answers on Hopper.
constexpr std::array<std::uint64_t, 7> kLimits = {1024, 1'048'576, 8'388'608, 2, 2048, 64, 0};

// CU_CTX_FLAGS_MASK and CU_CTX_SCHED_MASK, of whose flags (spin, yield, block) one may be set.
constexpr std::uint32_t kContextFlags = 0xFF;
constexpr std::uint32_t kScheduleFlags = 0x7;

bool is_same_pci_id(std::string_view full, std::string_view asked) {
  const auto equal = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  const auto matches = [&](std::string_view text) {
    return std::ranges::equal(text, asked, equal);
  };
  const std::string_view without_function = full.substr(0, full.rfind('.'));
  const std::size_t domain = full.find(':') + 1;
  return matches(full) || matches(without_function) || matches(full.substr(domain)) ||
         matches(without_function.substr(domain));
}

}  // namespace

void copy_text(char* out, std::int64_t capacity, const std::string& text) {
  require(out != nullptr && capacity > static_cast<std::int64_t>(text.size()));
  std::memcpy(out, text.c_str(), text.size() + 1);
}

std::int32_t can_access_peer(int from, int to) {
  Process& process = Process::get();
  const int first = process.device(from).physical;
  const int second = process.device(to).physical;
  return first != second && process.machine().link(first, second).peer_to_peer ? 1 : 0;
}

std::int32_t peer_attribute(std::uint32_t attribute, int from, int to) {
  require(from != to, Error::kInvalidDevice);
  const std::int32_t accessible = can_access_peer(from, to);
  Process& process = Process::get();
  const Link& link =
      process.machine().link(process.device(from).physical, process.device(to).physical);
  switch (attribute) {
    case kPerformanceRank:
      return link.level == LinkLevel::kNvlink ? 0 : 1;
    case kAccessSupported:
    case kArrayAccessSupported:
      return accessible;
    case kNativeAtomicSupported:
      return accessible != 0 && link.level == LinkLevel::kNvlink ? 1 : 0;
    default:
      fail(Error::kInvalidValue);
  }
}

void enable_peer_access(Device& from, int to) {
  Process::get().device(to);
  require(from.ordinal != to, Error::kInvalidDevice);
  require(can_access_peer(from.ordinal, to) != 0, Error::kPeerAccessUnsupported);
  const std::lock_guard lock(from.mutex);
  const auto peer = static_cast<std::size_t>(to);
  require(!from.peer_access[peer], Error::kPeerAccessAlreadyEnabled);
  from.peer_access[peer] = true;
}

void disable_peer_access(Device& from, int to) {
  Process::get().device(to);
  const std::lock_guard lock(from.mutex);
  const auto peer = static_cast<std::size_t>(to);
  require(from.peer_access[peer], Error::kPeerAccessNotEnabled);
  from.peer_access[peer] = false;
}

int device_by_pci_bus_id(const char* id) {
  require(id != nullptr);
  Process& process = Process::get();
  for (int i = 0; i < process.device_count(); ++i) {
    if (is_same_pci_id(process.profile(i).pci_bus_id, id)) return i;
  }
  fail(Error::kInvalidValue);
}

void copy_uuid(void* out, const std::string& uuid) {
  require(out != nullptr);
  auto* bytes = static_cast<unsigned char*>(out);
  std::string digits;
  for (const char c : uuid.substr(uuid.find('-') + 1)) {
    if (c != '-') digits.push_back(c);
  }
  for (std::size_t i = 0; i + 1 < digits.size() && i < 32; i += 2) {
    std::from_chars(digits.data() + i, digits.data() + i + 2, *bytes++, 16);
  }
}

void set_primary_flags(Device& device, std::uint32_t flags) {
  const std::uint32_t schedule = flags & kScheduleFlags;
  require((flags & ~kContextFlags) == 0 && (schedule & (schedule - 1)) == 0);
  const std::lock_guard lock(device.mutex);
  device.primary_flags = flags;
}

std::uint64_t limit(Device& device, std::uint32_t number) {
  require(number < kLimits.size());
  const std::lock_guard lock(device.mutex);
  const auto set = device.limits.find(number);
  return set == device.limits.end() ? kLimits[number] : set->second;
}

void set_limit(Device& device, std::uint32_t number, std::uint64_t value) {
  require(number < kLimits.size());
  const std::lock_guard lock(device.mutex);
  device.limits[number] = value;
}

void reset_device(Device& device) {
  require(device.time.synchronize() == Status::kOk, Error::kCaptureUnsupported);
  handles<Stream>().remove_if(
      [&](const Stream& stream) { return &stream.context() == &device.time; });
  handles<DeviceEvent>().remove_if(
      [&](const DeviceEvent& event) { return event.device == device.ordinal; });
  expect(process_memory().reset(device.physical));
  device.close();
}

}  // namespace warpserve::gpu
