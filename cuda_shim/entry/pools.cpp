#include "cuda_shim/entry/pools.hpp"

#include "cuda_shim/entry/graph_memory.hpp"
#include "cuda_shim/entry/streams.hpp"

namespace warpserve::gpu {
namespace {

constexpr std::uint32_t kPinnedAllocation = 1;
constexpr std::uint32_t kDeviceLocation = 1;

enum PoolAttribute : std::uint32_t {
  kReuseFollowEventDependencies = 1,
  kReuseAllowOpportunistic = 2,
  kReuseAllowInternalDependencies = 3,
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

bool captures(const Stream& stream) {
  return stream.capture_info().state != CaptureState::kNone;
}

}  // namespace

PoolId pool_of(void* handle) {
  require(handle != nullptr);
  return {reinterpret_cast<std::uintptr_t>(handle)};
}

void* pool_handle(PoolId pool) {
  return reinterpret_cast<void*>(pool.value);
}

void* create_pool(const PoolProperties& properties) {
  require(properties.allocation_type == kPinnedAllocation &&
          properties.location_type == kDeviceLocation);
  const int device = Process::get().device(properties.location_id).physical;
  return pool_handle(value_of(process_memory().pools().create(device, properties.max_bytes)));
}

Address allocate_in_order(Stream& stream, std::uint64_t bytes) {
  const int device = device_of(stream).physical;
  return allocate_in_order(stream, bytes, value_of(process_memory().pools().current(device)));
}

Address allocate_in_order(Stream& stream, std::uint64_t bytes, PoolId pool) {
  const Address address = value_of(process_memory().pools().allocate(pool, bytes));
  if (captures(stream)) submit_allocation(stream, address);
  return address;
}

namespace {

bool is_freeable(const PointerInfo& info) {
  return info.kind == MemoryKind::kPool || info.kind == MemoryKind::kDevice ||
         info.kind == MemoryKind::kManaged;
}

// Not before the stream has come so far: others would write to what its work still uses. The
// number tells whether the address is still that allocation's.
void free_when_reached(Stream& stream, Address address, std::uint64_t number) {
  const Error error = error_of(stream.submit(EmptyWork(), [address, number] {
    const Result<PointerInfo> info = process_memory().query(address);
    if (!info.ok() || info.value().number != number) return;
    static_cast<void>(process_memory().free(address));
  }));
  if (error != Error::kSuccess) fail(error);
}

}  // namespace

void free_in_order(Stream& stream, Address address) {
  if (address == 0) return;
  if (captures(stream)) return submit_free(stream, address);
  if (free_graph_memory(address)) return;
  if (stream.tail().known()) return expect(process_memory().free(address));
  const PointerInfo info = value_of(process_memory().query(address));
  require(is_freeable(info) && info.base == address);
  free_when_reached(stream, address, info.number);
}

void get_pool_attribute(PoolId pool, std::uint32_t attribute, void* value) {
  require(value != nullptr);
  const PoolAttributes known = value_of(process_memory().pools().attributes(pool));
  const auto answer = [&](auto number) { *static_cast<decltype(number)*>(value) = number; };
  switch (attribute) {
    case kReuseFollowEventDependencies:
      return answer(static_cast<std::int32_t>(known.reuse_follow_event_dependencies));
    case kReuseAllowOpportunistic:
      return answer(static_cast<std::int32_t>(known.reuse_allow_opportunistic));
    case kReuseAllowInternalDependencies:
      return answer(static_cast<std::int32_t>(known.reuse_allow_internal_dependencies));
    case kReleaseThreshold:
      return answer(known.release_threshold_bytes);
    case kReservedCurrent:
      return answer(known.reserved_bytes);
    case kReservedHigh:
      return answer(known.reserved_high_bytes);
    case kUsedCurrent:
      return answer(known.used_bytes);
    case kUsedHigh:
      return answer(known.used_high_bytes);
    default:
      fail(Error::kInvalidValue);
  }
}

void set_pool_attribute(PoolId pool, std::uint32_t attribute, const void* value) {
  require(value != nullptr);
  Pools& pools = process_memory().pools();
  PoolAttributes wanted = value_of(pools.attributes(pool));
  const bool flag = *static_cast<const std::int32_t*>(value) != 0;
  switch (attribute) {
    case kReuseFollowEventDependencies:
      wanted.reuse_follow_event_dependencies = flag;
      break;
    case kReuseAllowOpportunistic:
      wanted.reuse_allow_opportunistic = flag;
      break;
    case kReuseAllowInternalDependencies:
      wanted.reuse_allow_internal_dependencies = flag;
      break;
    case kReleaseThreshold:
      wanted.release_threshold_bytes = *static_cast<const std::uint64_t*>(value);
      break;
    case kReservedHigh:
      return expect(pools.reset_high_water(pool, true, false));
    case kUsedHigh:
      return expect(pools.reset_high_water(pool, false, true));
    default:
      fail(Error::kInvalidValue);
  }
  expect(pools.set_policy(pool, wanted));
}

}  // namespace warpserve::gpu
