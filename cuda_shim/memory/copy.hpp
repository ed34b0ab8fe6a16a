// Copies and fills: what they move, and what their time depends on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

struct State;

// What the program says of a copy; kInfer is cudaMemcpyDefault.
enum class CopyKind : std::uint8_t {
  kHostToHost,
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kInfer,
};

// What a copy turns out to be.
enum class CopyRoute : std::uint8_t {
  kHostToHost,
  kHostToDevice,
  kDeviceToHost,
  kWithinDevice,
  kPeer,  // from one device to another
};

// A box of bytes in two places. A plain copy is one row, a 2D copy one slice.
struct CopyBox {
  Address to = 0;
  Address from = 0;
  std::uint64_t width_bytes = 0;
  std::uint64_t rows = 1;
  std::uint64_t slices = 1;
  std::uint64_t to_pitch_bytes = 0;  // from row to row
  std::uint64_t from_pitch_bytes = 0;
  std::uint64_t to_slice_pitch_bytes = 0;  // from slice to slice
  std::uint64_t from_slice_pitch_bytes = 0;
};

// A copy that was found to be right. `move` is for the copy's place in stream order.
class CopyPlan {
 public:
  CopyPlan() = default;

  CopyRoute route() const { return route_; }
  std::uint64_t bytes() const { return box_.width_bytes * box_.rows * box_.slices; }
  // The devices at its ends; kNoDevice for the host.
  int from_device() const { return from_device_; }
  int to_device() const { return to_device_; }
  // Host memory that is not pinned: such copies block, or are staged.
  bool from_pageable() const { return from_pageable_; }
  bool to_pageable() const { return to_pageable_; }

  // Moves what can be moved: between host and control memory. What was freed or unmapped since is
  // left out.
  void move() const;

 private:
  friend class Copies;
  State* state_ = nullptr;
  CopyBox box_;
  CopyRoute route_ = CopyRoute::kHostToHost;
  int from_device_ = kNoDevice;
  int to_device_ = kNoDevice;
  bool from_pageable_ = false;
  bool to_pageable_ = false;
};

// `rows` of `elements`, each set to the low `element_bytes` (1, 2 or 4) of `value`.
struct FillBox {
  Address to = 0;
  std::uint32_t value = 0;
  std::uint64_t element_bytes = 1;
  std::uint64_t elements = 0;
  std::uint64_t rows = 1;
  std::uint64_t slices = 1;
  std::uint64_t pitch_bytes = 0;
  std::uint64_t slice_pitch_bytes = 0;
};

class FillPlan {
 public:
  FillPlan() = default;

  std::uint64_t bytes() const {
    return box_.elements * box_.element_bytes * box_.rows * box_.slices;
  }
  // kNoDevice for pinned memory.
  int device() const { return device_; }
  // Sets what is control memory.
  void move() const;

 private:
  friend class Copies;
  State* state_ = nullptr;
  FillBox box_;
  int device_ = kNoDevice;
};

// Any thread may call anything.
class Copies {
 public:
  explicit Copies(State& state) : state_(state) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  Result<CopyPlan> plan(Address to, Address from, std::uint64_t bytes, CopyKind kind) const;
  // Pitches count where there is more than one row or slice.
  Result<CopyPlan> plan(const CopyBox& box, CopyKind kind) const;
  Result<FillPlan> plan_fill(Address to, std::uint8_t value, std::uint64_t bytes) const;
  Result<FillPlan> plan_fill(const FillBox& box) const;

 private:
  State& state_;
};

}  // namespace warpserve::gpu
