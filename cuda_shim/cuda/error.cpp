#include "cuda_shim/entry/driver.hpp"

using namespace warpserve::gpu;

namespace {

// Both answer before cuInit, too.
std::uint32_t answer(const char** out, const char* text) {
  if (out == nullptr) return static_cast<std::uint32_t>(Error::kInvalidValue);
  *out = text;
  return static_cast<std::uint32_t>(text == nullptr ? Error::kInvalidValue : Error::kSuccess);
}

}  // namespace

std::uint32_t cuGetErrorName(std::uint32_t error, const char** name) {
  const ErrorText* const text = find_error_text(error);
  return answer(name, text == nullptr ? nullptr : text->driver_name);
}

std::uint32_t cuGetErrorString(std::uint32_t error, const char** words) {
  const ErrorText* const text = find_error_text(error);
  return answer(words, text == nullptr ? nullptr : text->text);
}
