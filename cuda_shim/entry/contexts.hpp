// Driver contexts.
#pragma once

#include <memory>

#include "cuda_shim/entry/process.hpp"

namespace warpserve::gpu {

// A primary context, or one that create_context gave. Throws Failure(kInvalidContext).
std::shared_ptr<DriverContext> context_of(void* handle);

// Becomes current, as cuCtxCreate has it.
void* create_context(Device& device, std::uint32_t flags);
// The last context takes with it what the process has on the device. Primary contexts are released
// instead: Failure(kInvalidContext).
void destroy_context(void* handle);
// As destroy_context at the last release. Throws Failure(kInvalidContext) where nobody retains it.
void release_primary_context(Device& device);

}  // namespace warpserve::gpu
