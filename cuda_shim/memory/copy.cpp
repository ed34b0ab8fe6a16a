#include "cuda_shim/memory/copy.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "cuda_shim/memory/ranges.hpp"
#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {
namespace {

// From the first byte of a box to its last, one side of it. Nothing where no addresses have room
// for it.
std::optional<std::uint64_t> extent(std::uint64_t width, std::uint64_t rows, std::uint64_t slices,
                                    std::uint64_t pitch, std::uint64_t slice_pitch) {
  if (width == 0 || rows == 0 || slices == 0) return 0;
  std::uint64_t in_rows = 0;
  std::uint64_t in_slices = 0;
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(rows - 1, pitch, &in_rows) ||
      __builtin_mul_overflow(slices - 1, slice_pitch, &in_slices) ||
      __builtin_add_overflow(in_rows, in_slices, &total) ||
      __builtin_add_overflow(total, width, &total)) {
    return std::nullopt;
  }
  return total;
}

bool pitches_fit(std::uint64_t width, std::uint64_t rows, std::uint64_t slices, std::uint64_t pitch,
                 std::uint64_t slice_pitch) {
  if ((rows > 1 || slices > 1) && pitch < width) return false;
  std::uint64_t slice = 0;
  return slices <= 1 || (!__builtin_mul_overflow(pitch, rows, &slice) && slice_pitch >= slice);
}

// Whether memory of that kind can be what a CopyKind says of one side. The device sees pinned
// memory at the host's address.
bool can_be_host(MemoryKind kind) {
  return is_host(kind) || kind == MemoryKind::kManaged;
}
bool can_be_device(MemoryKind kind) {
  return kind != MemoryKind::kUnregistered;
}

bool kind_fits(CopyKind kind, MemoryKind to, MemoryKind from) {
  switch (kind) {
    case CopyKind::kHostToHost:
      return can_be_host(to) && can_be_host(from);
    case CopyKind::kHostToDevice:
      return can_be_device(to) && can_be_host(from);
    case CopyKind::kDeviceToHost:
      return can_be_host(to) && can_be_device(from);
    case CopyKind::kDeviceToDevice:
      return can_be_device(to) && can_be_device(from);
    case CopyKind::kInfer:
      return true;
  }
  __builtin_unreachable();
}

CopyRoute route_of(int to_device, int from_device) {
  if (from_device == kNoDevice) {
    return to_device == kNoDevice ? CopyRoute::kHostToHost : CopyRoute::kHostToDevice;
  }
  if (to_device == kNoDevice) return CopyRoute::kDeviceToHost;
  return to_device == from_device ? CopyRoute::kWithinDevice : CopyRoute::kPeer;
}

// For mark_control: what the memory should hold by now would be lost.
void touch(const Range& range) {
  if (range.first != nullptr) range.first->touched = true;
}

void move_row(const Directory& directory, Address to, Address from, std::uint64_t bytes) {
  while (bytes > 0) {
    const Piece target = piece_at(directory, to, bytes);
    const Piece source = piece_at(directory, from, bytes);
    const std::uint64_t length = std::min(target.bytes, source.bytes);
    if (length == 0) return;
    if (target.real && source.real) std::memmove(pointer(to), pointer(from), length);
    to += length;
    from += length;
    bytes -= length;
  }
}

template <class Element>
void fill_elements(Address to, std::uint32_t value, std::uint64_t elements) {
  std::fill_n(static_cast<Element*>(pointer(to)), elements, static_cast<Element>(value));
}

void fill_row(const Directory& directory, Address to, const FillBox& box) {
  std::uint64_t bytes = box.elements * box.element_bytes;
  while (bytes > 0) {
    const Piece target = piece_at(directory, to, bytes);
    if (target.bytes == 0) return;
    if (target.real) {
      const std::uint64_t elements = target.bytes / box.element_bytes;
      if (box.element_bytes == 1) fill_elements<std::uint8_t>(to, box.value, elements);
      if (box.element_bytes == 2) fill_elements<std::uint16_t>(to, box.value, elements);
      if (box.element_bytes == 4) fill_elements<std::uint32_t>(to, box.value, elements);
    }
    to += target.bytes;
    bytes -= target.bytes;
  }
}

}  // namespace

Result<CopyPlan> Copies::plan(Address to, Address from, std::uint64_t bytes, CopyKind kind) const {
  return plan(CopyBox{.to = to, .from = from, .width_bytes = bytes}, kind);
}

Result<CopyPlan> Copies::plan(const CopyBox& box, CopyKind kind) const {
  const auto [to, from, width, rows, slices, to_pitch, from_pitch, to_slice, from_slice] = box;
  if (!pitches_fit(width, rows, slices, to_pitch, to_slice) ||
      !pitches_fit(width, rows, slices, from_pitch, from_slice)) {
    return MemoryStatus::kInvalidPitch;
  }
  const auto to_extent = extent(width, rows, slices, to_pitch, to_slice);
  const auto from_extent = extent(width, rows, slices, from_pitch, from_slice);
  if (!to_extent || !from_extent) return MemoryStatus::kOutOfBounds;
  CopyPlan plan;
  plan.state_ = &state_;
  plan.box_ = box;
  if (*to_extent == 0) {
    plan.box_.rows = 0;
    return plan;
  }

  const std::shared_lock lock(state_.mutex);
  const Result<Range> target = check_range(state_.directory, to, *to_extent);
  if (!target.ok()) return target.status();
  const Result<Range> source = check_range(state_.directory, from, *from_extent);
  if (!source.ok()) return source.status();
  if (!kind_fits(kind, target.value().kind, source.value().kind)) {
    return MemoryStatus::kInvalidDirection;
  }
  touch(target.value());
  touch(source.value());
  plan.to_device_ = target.value().device;
  plan.from_device_ = source.value().device;
  plan.to_pageable_ = target.value().kind == MemoryKind::kUnregistered;
  plan.from_pageable_ = source.value().kind == MemoryKind::kUnregistered;
  plan.route_ = route_of(plan.to_device_, plan.from_device_);
  return plan;
}

void CopyPlan::move() const {
  if (state_ == nullptr) return;
  const std::shared_lock lock(state_->mutex);
  for (std::uint64_t slice = 0; slice < box_.slices; ++slice) {
    for (std::uint64_t row = 0; row < box_.rows; ++row) {
      move_row(state_->directory,
               box_.to + slice * box_.to_slice_pitch_bytes + row * box_.to_pitch_bytes,
               box_.from + slice * box_.from_slice_pitch_bytes + row * box_.from_pitch_bytes,
               box_.width_bytes);
    }
  }
}

Result<FillPlan> Copies::plan_fill(Address to, std::uint8_t value, std::uint64_t bytes) const {
  return plan_fill(FillBox{.to = to, .value = value, .elements = bytes});
}

Result<FillPlan> Copies::plan_fill(const FillBox& box) const {
  const std::uint64_t element = box.element_bytes;
  std::uint64_t width = 0;
  if ((element != 1 && element != 2 && element != 4) || box.to % element != 0 ||
      (box.rows > 1 && box.pitch_bytes % element != 0)) {
    return MemoryStatus::kInvalidValue;
  }
  if (__builtin_mul_overflow(box.elements, element, &width)) return MemoryStatus::kOutOfBounds;
  if (!pitches_fit(width, box.rows, box.slices, box.pitch_bytes, box.slice_pitch_bytes)) {
    return MemoryStatus::kInvalidPitch;
  }
  const auto bytes = extent(width, box.rows, box.slices, box.pitch_bytes, box.slice_pitch_bytes);
  if (!bytes) return MemoryStatus::kOutOfBounds;
  FillPlan plan;
  plan.state_ = &state_;
  plan.box_ = box;
  if (*bytes == 0) {
    plan.box_.rows = 0;
    return plan;
  }

  const std::shared_lock lock(state_.mutex);
  const Result<Range> target = check_range(state_.directory, box.to, *bytes);
  if (!target.ok()) return target.status();
  if (!can_be_device(target.value().kind)) return MemoryStatus::kInvalidPointer;
  touch(target.value());
  plan.device_ = target.value().device;
  return plan;
}

void FillPlan::move() const {
  if (state_ == nullptr) return;
  const std::shared_lock lock(state_->mutex);
  for (std::uint64_t slice = 0; slice < box_.slices; ++slice) {
    for (std::uint64_t row = 0; row < box_.rows; ++row) {
      fill_row(state_->directory, box_.to + slice * box_.slice_pitch_bytes + row * box_.pitch_bytes,
               box_);
    }
  }
}

}  // namespace warpserve::gpu
