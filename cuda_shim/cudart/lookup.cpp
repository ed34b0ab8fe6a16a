#include "cuda_shim/entry/lookup.hpp"

#include "cuda_shim/entry/runtime.hpp"

using namespace warpserve::gpu;

namespace {

// Of the runtime that this library stands in for.
constexpr int kRuntimeVersion = WARPSERVE_CUDA_MAJOR == 12 ? 12080 : 13000;

std::uint64_t per_thread_flag(DefaultStream kind) {
  return kind == DefaultStream::kPerThread ? kPerThreadStreamFlag : 0;
}

}  // namespace

RUNTIME_STREAM_CALL(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz,
                    (const char* name, void** function, std::uint64_t flags, std::uint32_t* status),
                    find_driver_function(name, kRuntimeVersion,
                                         flags | per_thread_flag(kDefaultStream), function,
                                         status);)

RUNTIME_STREAM_CALL(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz,
                    (const char* name, void** function, std::uint32_t version, std::uint64_t flags,
                     std::uint32_t* status),
                    find_driver_function(name, static_cast<int>(version),
                                         flags | per_thread_flag(kDefaultStream), function,
                                         status);)

std::uint32_t cudaDriverGetVersion(std::int32_t* version) {
  return runtime_call([&] {
    require(version != nullptr);
    *version = driver_version();
  });
}

std::uint32_t cudaRuntimeGetVersion(std::int32_t* version) {
  return runtime_call([&] {
    require(version != nullptr);
    *version = kRuntimeVersion;
  });
}

std::uint32_t cudaGetExportTable(const void** table, const void* id) {
  return runtime_call([&, caller = __builtin_return_address(0)] {
    return refuse_export_table("CUDA runtime", "cudaGetExportTable", table, id, caller);
  });
}
