// What a call of an entry point that the virtual GPU does not have comes to.
#pragma once

namespace warpserve::cuda_shim {

// Static text about the call, and the address to which it returns.
struct UnsupportedCall {
  const char* library;
  const char* name;
  const char* advice;
  const void* caller;
};

// Names the call, its caller and what to do on standard error, the first time that a name is
// called, and counts it. Returns `error`; with WARPSERVE_UNSUPPORTED=warn in the environment 0,
// the success of every CUDA library, so that the program goes on without what it asked for.
[[nodiscard]] int unsupported(const UnsupportedCall& call, int error) noexcept;

// The same where no success without effect exists: it fails whatever the environment says.
[[nodiscard]] int refused(const UnsupportedCall& call, int error) noexcept;

// The same for a function without a result. It cannot fail, so it ends the process unless told to
// warn.
void unsupported_void(const UnsupportedCall& call) noexcept;

// The same for a function whose result is data. There is no right answer: it ends the process.
[[noreturn]] void unsupported_result(const UnsupportedCall& call) noexcept;

}  // namespace warpserve::cuda_shim
