#include "cuda_shim/memory/pool.hpp"

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

namespace {
constexpr std::uint64_t kGrowth = 32 * kMiB;
}

TEST(each_device_has_a_default_pool) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId first = pools.default_pool(0).value();
  CHECK(first != pools.default_pool(1).value());
  CHECK(pools.current(0).value() == first);
  CHECK_EQ(pools.device(pools.default_pool(1).value()).value(), 1);
  CHECK_STATUS(pools.destroy(first), kInvalidValue);
  CHECK_STATUS(pools.default_pool(2).status(), kInvalidDevice);
  CHECK_STATUS(pools.set_current(1, first), kInvalidValue);
}

TEST(pools_reserve_more_than_is_used) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId pool = pools.current(0).value();
  const Address address = pools.allocate(pool, 1000).value();
  const PointerInfo info = memory.query(address + 999).value();
  CHECK_EQ(info.kind, MemoryKind::kPool);
  CHECK_EQ(info.owner, pool.value);
  as<char>(address)[999] = 1;
  const Address second = pools.allocate(pool, 2000).value();
  PoolAttributes attributes = pools.attributes(pool).value();
  CHECK_EQ(attributes.reserved_bytes, kGrowth);
  CHECK_EQ(attributes.used_bytes, 1024u + 2048u);
  CHECK_EQ(free_bytes(memory), kUsable - kGrowth);

  CHECK_STATUS(memory.free(address), kOk);
  CHECK_STATUS(memory.free(address), kInvalidPointer);
  CHECK_STATUS(memory.free(second + 512), kInvalidPointer);
  CHECK_STATUS(memory.free(second), kOk);
  attributes = pools.attributes(pool).value();
  CHECK_EQ(attributes.used_bytes, 0u);
  CHECK_EQ(attributes.used_high_bytes, 3072u);
  CHECK_EQ(attributes.reserved_high_bytes, kGrowth);
  CHECK_EQ(attributes.reserved_bytes, kGrowth);
  CHECK_STATUS(pools.reset_high_water(pool, false, true), kOk);
  CHECK_EQ(pools.attributes(pool).value().used_high_bytes, 0u);
  CHECK_EQ(pools.attributes(pool).value().reserved_high_bytes, kGrowth);
}

TEST(memory_above_the_threshold_returns_at_synchronisation) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId pool = pools.current(0).value();
  CHECK_STATUS(memory.free(pools.allocate(pool, 40 * kMiB).value()), kOk);
  PoolAttributes policy = pools.attributes(pool).value();
  CHECK_EQ(policy.reserved_bytes, 2 * kGrowth);
  policy.release_threshold_bytes = ~std::uint64_t{0};
  CHECK_STATUS(pools.set_policy(pool, policy), kOk);
  pools.on_synchronize(0);
  CHECK_EQ(pools.attributes(pool).value().reserved_bytes, 2 * kGrowth);
  policy.release_threshold_bytes = 0;
  CHECK_STATUS(pools.set_policy(pool, policy), kOk);
  pools.on_synchronize(1);
  CHECK_EQ(pools.attributes(pool).value().reserved_bytes, 2 * kGrowth);
  pools.on_synchronize(0);
  CHECK_EQ(pools.attributes(pool).value().reserved_bytes, 0u);
  CHECK_EQ(free_bytes(memory), kUsable);
}

TEST(trimming_keeps_what_is_used_and_what_is_asked_for) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId pool = pools.current(0).value();
  const Address used = pools.allocate(pool, 100).value();
  const Address first = pools.allocate(pool, 20 * kMiB).value();
  const Address second = pools.allocate(pool, 20 * kMiB).value();
  CHECK_STATUS(memory.free(first), kOk);
  CHECK_STATUS(memory.free(second), kOk);
  CHECK_EQ(pools.attributes(pool).value().reserved_bytes, 3 * kGrowth);
  CHECK_STATUS(pools.trim_to(pool, 2 * kGrowth), kOk);
  CHECK_EQ(pools.attributes(pool).value().reserved_bytes, 2 * kGrowth);
  CHECK_STATUS(pools.trim_to(pool, 0), kOk);
  CHECK_EQ(pools.attributes(pool).value().reserved_bytes, kGrowth);
  CHECK_STATUS(memory.free(used), kOk);
}

TEST(unused_memory_of_other_pools_is_no_reason_to_run_out) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId other = pools.create(0).value();
  CHECK_STATUS(memory.free(pools.allocate(other, 200 * kMiB).value()), kOk);
  CHECK(pools.allocate(pools.current(0).value(), 100 * kMiB).ok());
  CHECK_STATUS(pools.allocate(other, 200 * kMiB).status(), kOutOfMemory);
}

TEST(the_last_blocks_of_a_device_can_be_pooled) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId pool = pools.current(0).value();
  CHECK(memory.allocate(0, kUsable - 3 * kBlock).ok());
  CHECK(pools.allocate(pool, kBlock + 1).ok());
  CHECK_EQ(free_bytes(memory), kBlock);
  CHECK(pools.allocate(pool, kBlock - 512).ok());
  CHECK(pools.allocate(pool, kBlock).ok());
  CHECK_STATUS(pools.allocate(pool, kBlock).status(), kOutOfMemory);
}

TEST(a_destroyed_pool_lives_until_its_last_allocation) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId pool = pools.create(0).value();
  CHECK_STATUS(pools.set_current(0, pool), kOk);
  const Address address = pools.allocate(pool, 100).value();
  CHECK_STATUS(pools.destroy(pool), kOk);
  CHECK(pools.current(0).value() == pools.default_pool(0).value());
  CHECK_STATUS(pools.allocate(pool, 1).status(), kInvalidHandle);
  CHECK_STATUS(pools.destroy(pool), kInvalidHandle);
  CHECK(memory.query(address).ok());
  CHECK_STATUS(memory.free(address), kOk);
  CHECK_EQ(free_bytes(memory), kUsable);
}

TEST(a_pool_has_a_largest_size) {
  Memory memory(small_machine(), small_options());
  Pools& pools = memory.pools();
  const PoolId pool = pools.create(0, kGrowth).value();
  CHECK_STATUS(pools.allocate(pool, kGrowth + 1).status(), kOutOfMemory);
  CHECK(pools.allocate(pool, kGrowth).ok());
  CHECK_STATUS(pools.allocate(pool, 1).status(), kOutOfMemory);
  CHECK_STATUS(pools.allocate(pool, 0).status(), kInvalidValue);
}
