// How programs find the driver's functions by name.
#pragma once

#include <cstdint>

#include "cuda_shim/api/driver_table.hpp"
#include "cuda_shim/entry/error.hpp"

namespace warpserve::gpu {

inline constexpr std::uint64_t kLegacyStreamFlag = 1;
inline constexpr std::uint64_t kPerThreadStreamFlag = 2;

// As a driver of the version that the profile names. Without a place for the status, what is not
// found is Failure(kNotFound).
void find_driver_function(const char* name, int version, std::uint64_t flags, void** function,
                          std::uint32_t* status);

// The undocumented tables of functions that NVIDIA's own libraries ask for: there are none. The
// first time it says so, with what to do.
Error refuse_export_table(const char* library, const char* name, const void** table, const void* id,
                          const void* caller);

// The driver's, by the catalogue.
int driver_version();

}  // namespace warpserve::gpu
