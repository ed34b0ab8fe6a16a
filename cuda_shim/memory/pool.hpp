// Pools of stream-ordered allocation (cudaMallocAsync).
//
// What is freed can be allocated again at once, by whatever stream: whoever frees it does so when
// it is known when the stream comes so far. On a real GPU it can from that instant on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

struct State;

struct PoolId {
  std::uint64_t value = 0;
  auto operator<=>(const PoolId&) const = default;
};

// The attributes of cudaMemPoolAttr.
struct PoolAttributes {
  bool reuse_follow_event_dependencies = true;
  bool reuse_allow_opportunistic = true;
  bool reuse_allow_internal_dependencies = true;
  std::uint64_t release_threshold_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_high_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t used_high_bytes = 0;
};

// Any thread may call anything.
class Pools {
 public:
  explicit Pools(State& state);
  ~Pools();
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // Of the device, from the start; can't be destroyed.
  Result<PoolId> default_pool(int device) const;
  // `max_bytes` 0: as much as the device has.
  Result<PoolId> create(int device, std::uint64_t max_bytes = 0);
  // Not a default pool. What is allocated stays, and memory returns as it is freed.
  MemoryStatus destroy(PoolId pool);
  // The pool that a device allocates from without one named.
  Result<PoolId> current(int device) const;
  MemoryStatus set_current(int device, PoolId pool);
  Result<int> device(PoolId pool) const;

  // Freed with Memory::free.
  Result<Address> allocate(PoolId pool, std::uint64_t bytes);

  // Gives back unused memory until at most so much is reserved.
  MemoryStatus trim_to(PoolId pool, std::uint64_t keep_bytes);
  Result<PoolAttributes> attributes(PoolId pool) const;
  // Sets the threshold and the three rules; the counters stay.
  MemoryStatus set_policy(PoolId pool, const PoolAttributes& wanted);
  // The high-water marks become what they mark now.
  MemoryStatus reset_high_water(PoolId pool, bool reserved, bool used);

  // To be called when a stream, an event or the device was waited for: pools give back what they
  // hold beyond their threshold.
  void on_synchronize(int device);

 private:
  struct Pool;
  friend class Memory;

  // With the state's mutex held:
  Pool* find(PoolId pool) const;
  // Of all pools of the device.
  void release_unused(int device);
  void free_locked(const Allocation& allocation);
  void reset(int device);

  State& state_;
  std::map<PoolId, std::unique_ptr<Pool>> pools_;
  std::map<int, PoolId> current_;
  std::uint64_t next_ = 1;
};

}  // namespace warpserve::gpu
