#include <utility>

#include "cuda_shim/entry/runtime.hpp"

using namespace warpserve::gpu;

std::uint32_t cudaGetLastError() {
  Thread& thread = Thread::get();
  return static_cast<std::uint32_t>(std::exchange(thread.last_error, Error::kSuccess));
}

std::uint32_t cudaPeekAtLastError() {
  return static_cast<std::uint32_t>(Thread::get().last_error);
}

const char* cudaGetErrorName(std::uint32_t error) {
  const ErrorText* const text = find_error_text(error);
  return text != nullptr && text->runtime_name != nullptr ? text->runtime_name
                                                          : "unrecognized error code";
}

const char* cudaGetErrorString(std::uint32_t error) {
  const ErrorText* const text = find_error_text(error);
  return text != nullptr ? text->text : "unrecognized error code";
}
