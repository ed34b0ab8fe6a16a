// Handles and descriptors of the mathematical libraries. They keep what they are told; nothing is
// computed, and a call of theirs takes the time that a patch enqueues for it: none.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "cuda_shim/entry/handles.hpp"

namespace warpserve::gpu {

// cuBLAS and cuBLASLt, which share their codes.
enum class BlasStatus : std::uint32_t {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocationFailed = 3,
  kInvalidValue = 7,
};

struct BlasHandle {
  void* stream = nullptr;
  std::uint32_t math_mode = 0;
  std::uint32_t pointer_mode = 0;
  std::uint32_t atomics_mode = 0;
  std::int32_t multiprocessors = 0;
};
struct BlasDescriptor {};
struct DnnHandle {
  void* stream = nullptr;
};

// Bodies get the object of the handle. Codes are those of the library.
template <class Object, class Body>
std::uint32_t with_handle(void* handle, std::uint32_t no_such_handle, const Body& body) noexcept {
  const auto object = handles<Object>().find(handle);
  if (object == nullptr) return no_such_handle;
  body(*object);
  return 0;
}

template <class Object>
std::uint32_t create_handle(void** handle, std::uint32_t null_pointer,
                            std::uint32_t no_memory) noexcept {
  if (handle == nullptr) return null_pointer;
  try {
    *handle = handles<Object>().add(std::make_shared<Object>());
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
  return 0;
}

template <class Object>
std::uint32_t destroy_handle(void* handle, std::uint32_t no_such_handle) noexcept {
  return handles<Object>().remove(handle) == nullptr ? no_such_handle : 0;
}

}  // namespace warpserve::gpu
