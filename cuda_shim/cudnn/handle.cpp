#pragma GCC visibility push(default)
#include "cudnn.hpp"
#pragma GCC visibility pop

#include "cuda_shim/entry/math.hpp"

using namespace warpserve::gpu;

namespace {

constexpr std::uint32_t kBadParameter = 2000;
constexpr std::uint32_t kNoMemory = 1003;
constexpr std::uint32_t kVersion[] = {9, 24, 0};

}  // namespace

std::uint32_t cudnnCreate(void** handle) {
  return create_handle<DnnHandle>(handle, kBadParameter, kNoMemory);
}

std::uint32_t cudnnDestroy(void* handle) {
  return destroy_handle<DnnHandle>(handle, kBadParameter);
}

std::uint32_t cudnnSetStream(void* handle, void* stream) {
  return with_handle<DnnHandle>(handle, kBadParameter,
                                [&](DnnHandle& found) { found.stream = stream; });
}

std::uint32_t cudnnGetStream(void* handle, void** stream) {
  if (stream == nullptr) return kBadParameter;
  return with_handle<DnnHandle>(handle, kBadParameter,
                                [&](const DnnHandle& found) { *stream = found.stream; });
}

std::uint64_t cudnnGetVersion() {
  return kVersion[0] * 10'000ULL + kVersion[1] * 100ULL + kVersion[2];
}

std::uint32_t cudnnGetProperty(std::uint32_t type, std::int32_t* value) {
  if (type > 2 || value == nullptr) return kBadParameter;
  *value = static_cast<std::int32_t>(kVersion[type]);
  return 0;
}
