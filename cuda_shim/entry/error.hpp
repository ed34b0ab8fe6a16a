// The codes that entry points return. Runtime and driver share their numbers: cudaError_t and
// CUresult of the same meaning are equal, but for what is marked.
#pragma once

#include <cstdint>

#include "cuda_shim/time/status.hpp"

namespace warpserve::gpu {

enum class [[nodiscard]] Error : std::uint32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidPitch = 12,           // runtime only
  kInvalidSymbol = 13,          // runtime only
  kInvalidCopyDirection = 21,   // runtime only
  kInvalidDeviceFunction = 98,  // runtime only
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kPeerAccessUnsupported = 217,
  kFileNotFound = 301,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kContextIsDestroyed = 709,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
  kGraphUpdateFailure = 910,
  kUnknown = 999,
};

Error error_of(Status status);

// What a call can't go on from. Entry points catch it and return its code.
struct Failure {
  Error error;
};

[[noreturn]] inline void fail(Error error) {
  throw Failure{error};
}
inline void require(bool condition, Error error = Error::kInvalidValue) {
  if (!condition) fail(error);
}

// The names and the words for a code, or null where there is no such code.
struct ErrorText {
  std::uint32_t code;
  const char* runtime_name;  // null where only the driver has it
  const char* driver_name;   // null where only the runtime has it
  const char* text;
};
const ErrorText* find_error_text(std::uint32_t code);

}  // namespace warpserve::gpu
