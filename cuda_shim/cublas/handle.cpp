#pragma GCC visibility push(default)
#include "cublas.hpp"
#pragma GCC visibility pop

#include "cuda_shim/entry/math.hpp"

using namespace warpserve::gpu;

namespace {

constexpr auto kNotInitialized = static_cast<std::uint32_t>(BlasStatus::kNotInitialized);
constexpr auto kInvalidValue = static_cast<std::uint32_t>(BlasStatus::kInvalidValue);
constexpr auto kNoMemory = static_cast<std::uint32_t>(BlasStatus::kAllocationFailed);
// Those of CUDA 12.8 and 13.0.
constexpr std::int32_t kVersion = WARPSERVE_CUDA_MAJOR == 12 ? 120804 : 130101;

template <class Body>
std::uint32_t with(void* handle, const Body& body) {
  return with_handle<BlasHandle>(handle, kNotInitialized, body);
}

template <class T>
std::uint32_t read(void* handle, T* out, T BlasHandle::* member) {
  if (out == nullptr) return kInvalidValue;
  return with(handle, [&](const BlasHandle& found) { *out = found.*member; });
}

template <class T>
std::uint32_t write(void* handle, T value, T BlasHandle::* member) {
  return with(handle, [&](BlasHandle& found) { found.*member = value; });
}

}  // namespace

std::uint32_t cublasCreate_v2(void** handle) {
  return create_handle<BlasHandle>(handle, kInvalidValue, kNoMemory);
}

std::uint32_t cublasDestroy_v2(void* handle) {
  return destroy_handle<BlasHandle>(handle, kNotInitialized);
}

std::uint32_t cublasGetVersion_v2(void*, std::int32_t* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return 0;
}

// The workspace is the caller's, and nobody works there.
std::uint32_t cublasSetWorkspace_v2(void* handle, void*, std::uint64_t) {
  return with(handle, [](BlasHandle&) {});
}

std::uint32_t cublasSetStream_v2(void* handle, void* value) {
  return write(handle, value, &BlasHandle::stream);
}

std::uint32_t cublasGetStream_v2(void* handle, void** value) {
  return read(handle, value, &BlasHandle::stream);
}

std::uint32_t cublasSetMathMode(void* handle, std::uint32_t value) {
  return write(handle, value, &BlasHandle::math_mode);
}

std::uint32_t cublasGetMathMode(void* handle, std::uint32_t* value) {
  return read(handle, value, &BlasHandle::math_mode);
}

std::uint32_t cublasSetPointerMode_v2(void* handle, std::uint32_t value) {
  return write(handle, value, &BlasHandle::pointer_mode);
}

std::uint32_t cublasGetPointerMode_v2(void* handle, std::uint32_t* value) {
  return read(handle, value, &BlasHandle::pointer_mode);
}

std::uint32_t cublasSetAtomicsMode(void* handle, std::uint32_t value) {
  return write(handle, value, &BlasHandle::atomics_mode);
}

std::uint32_t cublasGetAtomicsMode(void* handle, std::uint32_t* value) {
  return read(handle, value, &BlasHandle::atomics_mode);
}

std::uint32_t cublasSetSmCountTarget(void* handle, std::int32_t value) {
  return write(handle, value, &BlasHandle::multiprocessors);
}

std::uint32_t cublasGetSmCountTarget(void* handle, std::int32_t* value) {
  return read(handle, value, &BlasHandle::multiprocessors);
}
