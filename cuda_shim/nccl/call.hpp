// How NCCL's entry points are entered and left, and their handles.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda_shim/entry/process.hpp"
#include "cuda_shim/nccl/communicator.hpp"
#include "cuda_shim/nccl/launch.hpp"
#include "cuda_shim/nccl/types.hpp"

#pragma GCC visibility push(default)
#include "nccl.hpp"
#pragma GCC visibility pop

namespace warpserve::gpu::nccl {

// The code of the exception that is being handled. Its message is the thread's last error, and the
// thread's group has failed.
std::uint32_t code_of_current_exception() noexcept;

// Of the last call of this thread that failed; "" where there was none.
const char* last_error();

// A body returns nothing, or an Outcome.
template <class Body>
std::uint32_t nccl_call(const Body& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return static_cast<std::uint32_t>(Outcome::kSuccess);
    } else {
      return static_cast<std::uint32_t>(body());
    }
  } catch (...) {
    return code_of_current_exception();
  }
}

// Throws NcclFailure(kInvalidArgument) where the handle is none.
std::shared_ptr<Communicator> communicator_of(const void* handle);

template <class T>
T& not_null(T* pointer, const char* what) {
  if (pointer == nullptr) {
    throw NcclFailure(Outcome::kInvalidArgument, std::string(what) + " is a null pointer");
  }
  return *pointer;
}

DataType data_type_of(std::uint32_t number);

}  // namespace warpserve::gpu::nccl
