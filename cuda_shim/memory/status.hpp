// What an operation on memory comes to. The entry points say it in CUDA's codes.
#pragma once

#include <cstdint>
#include <utility>

namespace warpserve::gpu {

enum class [[nodiscard]] MemoryStatus : std::uint8_t {
  kOk,
  kOutOfMemory,        // cudaErrorMemoryAllocation
  kInvalidValue,       // cudaErrorInvalidValue: sizes, alignments, flags
  kInvalidDevice,      // cudaErrorInvalidDevice
  kInvalidPointer,     // not (any more) what it has to be; cudaErrorInvalidValue
  kOutOfBounds,        // runs over the end of its allocation; cudaErrorInvalidValue
  kInvalidPitch,       // cudaErrorInvalidPitchValue: shorter than a row
  kInvalidDirection,   // pointers that do not fit the direction
  kInvalidHandle,      // cudaErrorInvalidResourceHandle: no such pool, physical memory, IPC handle
  kSameProcess,        // an IPC handle opened by its maker; cudaErrorDeviceUninitialized
  kAlreadyRegistered,  // cudaErrorHostMemoryAlreadyRegistered
  kNotRegistered,      // cudaErrorHostMemoryNotRegistered
  kNotSupported,       // cudaErrorNotSupported
};

// A value, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // An error: never kOk.
  Result(MemoryStatus error) : status_(error) {}

  bool ok() const { return status_ == MemoryStatus::kOk; }
  MemoryStatus status() const { return status_; }
  // Where there is one.
  const T& value() const { return value_; }

 private:
  MemoryStatus status_ = MemoryStatus::kOk;
  T value_{};
};

}  // namespace warpserve::gpu
