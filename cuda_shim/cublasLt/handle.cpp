#pragma GCC visibility push(default)
#include "cublasLt.hpp"
#pragma GCC visibility pop

#include "cuda_shim/entry/math.hpp"

using namespace warpserve::gpu;

namespace {

constexpr auto kNotInitialized = static_cast<std::uint32_t>(BlasStatus::kNotInitialized);
constexpr auto kInvalidValue = static_cast<std::uint32_t>(BlasStatus::kInvalidValue);
constexpr auto kNoMemory = static_cast<std::uint32_t>(BlasStatus::kAllocationFailed);
constexpr std::uint64_t kVersion = WARPSERVE_CUDA_MAJOR == 12 ? 120804 : 130101;

// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  std::uint64_t algorithm[8];
  std::uint64_t workspace_bytes;
  std::uint32_t status;
  float waves;
  std::int32_t reserved[4];
};
static_assert(sizeof(HeuristicResult) ==
              sizeof(warpserve::cuda_shim::abi::cublasLtMatmulHeuristicResult_t));

std::uint32_t create_descriptor(void** descriptor) {
  return create_handle<BlasDescriptor>(descriptor, kInvalidValue, kNoMemory);
}

std::uint32_t destroy_descriptor(void* descriptor) {
  return destroy_handle<BlasDescriptor>(descriptor, kInvalidValue);
}

}  // namespace

std::uint32_t cublasLtCreate(void** handle) {
  return create_handle<BlasHandle>(handle, kInvalidValue, kNoMemory);
}

std::uint32_t cublasLtDestroy(void* handle) {
  return destroy_handle<BlasHandle>(handle, kNotInitialized);
}

std::uint64_t cublasLtGetVersion() {
  return kVersion;
}

std::uint32_t cublasLtMatmulDescCreate(void** descriptor, std::uint32_t, std::uint32_t) {
  return create_descriptor(descriptor);
}

std::uint32_t cublasLtMatmulDescDestroy(void* descriptor) {
  return destroy_descriptor(descriptor);
}

std::uint32_t cublasLtMatmulPreferenceCreate(void** descriptor) {
  return create_descriptor(descriptor);
}

std::uint32_t cublasLtMatmulPreferenceDestroy(void* descriptor) {
  return destroy_descriptor(descriptor);
}

std::uint32_t cublasLtMatrixLayoutCreate(void** descriptor, std::uint32_t, std::uint64_t,
                                         std::uint64_t, std::int64_t) {
  return create_descriptor(descriptor);
}

std::uint32_t cublasLtMatrixLayoutDestroy(void* descriptor) {
  return destroy_descriptor(descriptor);
}

std::uint32_t cublasLtMatrixTransformDescCreate(void** descriptor, std::uint32_t) {
  return create_descriptor(descriptor);
}

std::uint32_t cublasLtMatrixTransformDescDestroy(void* descriptor) {
  return destroy_descriptor(descriptor);
}

// One algorithm, which needs no workspace.
std::uint32_t cublasLtMatmulAlgoGetHeuristic(void* handle, void*, void*, void*, void*, void*, void*,
                                             std::int32_t wanted, void* results,
                                             std::int32_t* found) {
  if (results == nullptr || found == nullptr || wanted < 1) return kInvalidValue;
  return with_handle<BlasHandle>(handle, kNotInitialized, [&](const BlasHandle&) {
    *static_cast<HeuristicResult*>(results) = {.waves = 1};
    *found = 1;
  });
}
