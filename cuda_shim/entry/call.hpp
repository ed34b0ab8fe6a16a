// How an entry point is entered and left: exceptions become codes, the runtime remembers its last
// error, the driver insists on cuInit.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda_shim/entry/error.hpp"
#include "cuda_shim/entry/process.hpp"

namespace warpserve::gpu {

// The code of the exception that is being handled; what is not the caller's fault is also said on
// standard error, once.
Error error_of_current_exception() noexcept;

inline Error error_of(Error error) {
  return error;
}

// A body returns nothing, a Status or an Error.
template <class Body>
Error guarded(const Body& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return Error::kSuccess;
    } else {
      return error_of(body());
    }
  } catch (...) {
    return error_of_current_exception();
  }
}

// Of the runtime, which initialises the driver.
template <class Body>
std::uint32_t runtime_call(const Body& body) noexcept {
  mark_driver_initialized();
  const Error error = guarded(body);
  if (error != Error::kSuccess) Thread::get().last_error = error;
  return static_cast<std::uint32_t>(error);
}

// Of the patches' own API, which leaves the runtime's last error as the program left it.
template <class Body>
int patch_call(const Body& body) noexcept {
  mark_driver_initialized();
  return static_cast<int>(guarded(body));
}

// What the driver says where the runtime has a code of its own.
inline Error driver_error(Error error) {
  const bool of_runtime = error == Error::kInvalidPitch || error == Error::kInvalidCopyDirection;
  return of_runtime ? Error::kInvalidValue : error;
}

// While it lives, calls of this thread are the driver's.
class InDriverCall {
 public:
  InDriverCall() : in_call_(Thread::get().in_driver_call), outer_(std::exchange(in_call_, true)) {}
  ~InDriverCall() { in_call_ = outer_; }
  InDriverCall(const InDriverCall&) = delete;
  InDriverCall& operator=(const InDriverCall&) = delete;

 private:
  bool& in_call_;
  const bool outer_;
};

// Of the driver.
template <class Body>
std::uint32_t driver_call(const Body& body) noexcept {
  return static_cast<std::uint32_t>(driver_error(guarded([&] {
    require(is_driver_initialized(), Error::kNotInitialized);
    const InDriverCall scope;
    return body();
  })));
}

// A call with a stream, in both its forms: `kDefaultStream` says what its null stream is.
#define WARPSERVE_STREAM_CALL(call, name, per_thread_name, parameters, ...)                     \
  std::uint32_t name parameters {                                                               \
    [[maybe_unused]] constexpr auto kDefaultStream = warpserve::gpu::DefaultStream::kLegacy;    \
    return call([&] { __VA_ARGS__ });                                                           \
  }                                                                                             \
  std::uint32_t per_thread_name parameters {                                                    \
    [[maybe_unused]] constexpr auto kDefaultStream = warpserve::gpu::DefaultStream::kPerThread; \
    return call([&] { __VA_ARGS__ });                                                           \
  }

enum class DefaultStream { kLegacy, kPerThread };

}  // namespace warpserve::gpu
