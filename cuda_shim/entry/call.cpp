#include "cuda_shim/entry/call.hpp"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <new>
#include <string>

namespace warpserve::gpu {
namespace {

void say_once(const char* what) noexcept {
  static std::atomic_flag said;
  if (said.test_and_set()) return;
  try {
    const std::string message = std::string("warpserve: ") + what + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace

Error error_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.error;
  } catch (const ProfileError& error) {
    say_once(error.what());
    return Error::kNoDevice;
  } catch (const std::bad_alloc&) {
    return Error::kOutOfMemory;
  } catch (const std::exception& error) {
    say_once(error.what());
    return Error::kUnknown;
  }
}

}  // namespace warpserve::gpu
