// Memory pools: handles, properties and attributes as both libraries have them.
#pragma once

#include <cstdint>

#include "cuda_shim/entry/memory.hpp"

namespace warpserve::gpu {

// The beginning of cudaMemPoolProps and CUmemPoolProps.
struct PoolProperties {
  std::uint32_t allocation_type;
  std::uint32_t handle_types;
  std::uint32_t location_type;
  std::int32_t location_id;
  void* security_attributes;
  std::uint64_t max_bytes;
};

// Throws Failure(kInvalidValue) where the handle is null.
PoolId pool_of(void* handle);
void* pool_handle(PoolId pool);
void* create_pool(const PoolProperties& properties);

// From the current pool of the stream's device, or the one given.
Address allocate_in_order(Stream& stream, std::uint64_t bytes);
Address allocate_in_order(Stream& stream, std::uint64_t bytes, PoolId pool);
void free_in_order(Stream& stream, Address address);

// cudaMemPoolAttr and CUmemPool_attribute.
void get_pool_attribute(PoolId pool, std::uint32_t attribute, void* value);
void set_pool_attribute(PoolId pool, std::uint32_t attribute, const void* value);

}  // namespace warpserve::gpu
