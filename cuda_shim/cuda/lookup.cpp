#include "cuda_shim/entry/lookup.hpp"

#include "cuda_shim/entry/driver.hpp"

using namespace warpserve::gpu;

// Before cuInit, too.

namespace {

template <class Body>
std::uint32_t early_call(const Body& body) {
  return static_cast<std::uint32_t>(guarded(body));
}

}  // namespace

std::uint32_t cuInit(std::uint32_t flags) {
  return early_call([&] {
    require(flags == 0);
    initialize_driver();
  });
}

std::uint32_t cuDriverGetVersion(std::int32_t* version) {
  return early_call([&] {
    require(version != nullptr);
    *version = driver_version();
  });
}

std::uint32_t cuGetProcAddress(const char* name, void** function, std::int32_t version,
                               std::uint64_t flags) {
  return early_call([&] { find_driver_function(name, version, flags, function, nullptr); });
}

std::uint32_t cuGetProcAddress_v2(const char* name, void** function, std::int32_t version,
                                  std::uint64_t flags, std::uint32_t* status) {
  return early_call([&] { find_driver_function(name, version, flags, function, status); });
}

std::uint32_t cuGetExportTable(const void** table, const void* id) {
  return early_call([&, caller = __builtin_return_address(0)] {
    return refuse_export_table("CUDA driver", "cuGetExportTable", table, id, caller);
  });
}
