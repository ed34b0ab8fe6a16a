#include "cuda_shim/memory/pool.hpp"

#include <algorithm>
#include <mutex>

#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {
namespace {

// By how much pools grow (assumed: what cudaMemPoolAttrReservedMemCurrent says after a small
// allocation).
constexpr std::uint64_t kPoolBlockBytes = 32 * kMiB;

std::uint64_t pool_block_bytes(const DeviceSpace& space) {
  return round_up(kPoolBlockBytes, space.block_bytes());
}

}  // namespace

struct Pools::Pool {
  Pool(DeviceState& device, std::uint64_t most_bytes, bool default_of_device)
      : control(device.space, Residency::kControl, pool_block_bytes(device.space)),
        compute(device.space, Residency::kCompute, pool_block_bytes(device.space)),
        device_number(device.space.device()),
        max_bytes(most_bytes),
        is_default(default_of_device) {}

  BlockHeap& heap(Residency residency) {
    return residency == Residency::kControl ? control : compute;
  }
  std::uint64_t reserved_bytes() const {
    return control.reserved_bytes() + compute.reserved_bytes();
  }
  void release_unused(std::uint64_t keep_bytes) {
    const auto keep_beside = [keep_bytes](const BlockHeap& other) {
      return keep_bytes - std::min(keep_bytes, other.reserved_bytes());
    };
    compute.release_unused(keep_beside(control));
    control.release_unused(keep_beside(compute));
  }
  void raise_high_water() {
    attributes.reserved_high_bytes = std::max(attributes.reserved_high_bytes, reserved_bytes());
    attributes.used_high_bytes = std::max(attributes.used_high_bytes, attributes.used_bytes);
  }

  BlockHeap control;
  BlockHeap compute;
  const int device_number;
  const std::uint64_t max_bytes;
  const bool is_default;
  bool destroyed = false;     // and goes when the last allocation does
  PoolAttributes attributes;  // reserved_bytes is the heaps'
};

Pools::Pools(State& state) : state_(state) {
  for (const auto& device : state_.devices) {
    const PoolId id{next_++};
    pools_.emplace(id,
                   std::make_unique<Pool>(*device, state_.machine.gpu().memory_usable_bytes, true));
    current_.emplace(device->space.device(), id);
  }
}

Pools::~Pools() = default;

Result<PoolId> Pools::default_pool(int device) const {
  const std::shared_lock lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  return PoolId{static_cast<std::uint64_t>(device) + 1};
}

Result<PoolId> Pools::create(int device, std::uint64_t max_bytes) {
  const std::lock_guard lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  const std::uint64_t usable = state_.machine.gpu().memory_usable_bytes;
  const PoolId id{next_++};
  pools_.emplace(id, std::make_unique<Pool>(state_.device(device),
                                            max_bytes == 0 ? usable : max_bytes, false));
  return id;
}

MemoryStatus Pools::destroy(PoolId pool) {
  const std::lock_guard lock(state_.mutex);
  Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  if (found->is_default) return MemoryStatus::kInvalidValue;
  // The device goes back to its default pool.
  PoolId& current = current_.at(found->device_number);
  if (current == pool) current = PoolId{static_cast<std::uint64_t>(found->device_number) + 1};
  found->destroyed = true;
  found->release_unused(0);
  if (found->attributes.used_bytes == 0) pools_.erase(pool);
  return MemoryStatus::kOk;
}

Result<PoolId> Pools::current(int device) const {
  const std::shared_lock lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  return current_.at(device);
}

MemoryStatus Pools::set_current(int device, PoolId pool) {
  const std::lock_guard lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  const Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  if (found->device_number != device) return MemoryStatus::kInvalidValue;
  current_.at(device) = pool;
  return MemoryStatus::kOk;
}

Result<int> Pools::device(PoolId pool) const {
  const std::shared_lock lock(state_.mutex);
  const Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  return found->device_number;
}

Result<Address> Pools::allocate(PoolId pool, std::uint64_t bytes) {
  const std::lock_guard lock(state_.mutex);
  Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  if (bytes == 0) return MemoryStatus::kInvalidValue;
  if (bytes > found->max_bytes || bytes > state_.machine.gpu().memory_usable_bytes) {
    return MemoryStatus::kOutOfMemory;
  }
  const Residency residency = state_.residency_for(bytes);
  BlockHeap& heap = found->heap(residency);
  const auto attempt = [&] {
    return heap.allocate(bytes,
                         found->max_bytes - std::min(found->max_bytes, found->reserved_bytes()));
  };
  Result<Address> address = attempt();
  if (!address.ok()) {
    release_unused(found->device_number);
    address = attempt();
  }
  if (!address.ok()) return address;
  found->attributes.used_bytes += round_up(bytes, kAllocationUnitBytes);
  found->raise_high_water();
  state_.directory.add(address.value(), bytes, MemoryKind::kPool, found->device_number, residency)
      .owner = pool.value;
  return address;
}

void Pools::free_locked(const Allocation& allocation) {
  const PoolId id{allocation.owner};
  Pool& pool = *pools_.at(id);
  pool.heap(allocation.residency).free(allocation.base, allocation.bytes);
  pool.attributes.used_bytes -= round_up(allocation.bytes, kAllocationUnitBytes);
  if (!pool.destroyed) return;
  pool.release_unused(0);
  if (pool.attributes.used_bytes == 0) pools_.erase(id);
}

MemoryStatus Pools::trim_to(PoolId pool, std::uint64_t keep_bytes) {
  const std::lock_guard lock(state_.mutex);
  Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  found->release_unused(keep_bytes);
  return MemoryStatus::kOk;
}

Result<PoolAttributes> Pools::attributes(PoolId pool) const {
  const std::shared_lock lock(state_.mutex);
  const Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  PoolAttributes attributes = found->attributes;
  attributes.reserved_bytes = found->reserved_bytes();
  return attributes;
}

MemoryStatus Pools::set_policy(PoolId pool, const PoolAttributes& wanted) {
  const std::lock_guard lock(state_.mutex);
  Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  PoolAttributes& attributes = found->attributes;
  attributes.release_threshold_bytes = wanted.release_threshold_bytes;
  attributes.reuse_follow_event_dependencies = wanted.reuse_follow_event_dependencies;
  attributes.reuse_allow_opportunistic = wanted.reuse_allow_opportunistic;
  attributes.reuse_allow_internal_dependencies = wanted.reuse_allow_internal_dependencies;
  return MemoryStatus::kOk;
}

MemoryStatus Pools::reset_high_water(PoolId pool, bool reserved, bool used) {
  const std::lock_guard lock(state_.mutex);
  Pool* const found = find(pool);
  if (found == nullptr) return MemoryStatus::kInvalidHandle;
  if (reserved) found->attributes.reserved_high_bytes = found->reserved_bytes();
  if (used) found->attributes.used_high_bytes = found->attributes.used_bytes;
  return MemoryStatus::kOk;
}

void Pools::on_synchronize(int device) {
  const std::lock_guard lock(state_.mutex);
  for (const auto& [id, pool] : pools_) {
    if (pool->device_number == device) {
      pool->release_unused(pool->attributes.release_threshold_bytes);
    }
  }
}

Pools::Pool* Pools::find(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() || found->second->destroyed ? nullptr : found->second.get();
}

void Pools::release_unused(int device) {
  for (const auto& [id, pool] : pools_) {
    if (pool->device_number == device) pool->release_unused(0);
  }
}

void Pools::reset(int device) {
  std::erase_if(pools_, [device](const auto& entry) {
    return entry.second->device_number == device && !entry.second->is_default;
  });
  release_unused(device);
  current_.at(device) = PoolId{static_cast<std::uint64_t>(device) + 1};
}

}  // namespace warpserve::gpu
