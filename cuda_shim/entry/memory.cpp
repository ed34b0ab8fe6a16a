#include "cuda_shim/entry/memory.hpp"

#include <algorithm>

#include "cuda_shim/entry/graph_memory.hpp"
#include "cuda_shim/entry/handles.hpp"
#include "cuda_shim/entry/streams.hpp"
#include "cuda_shim/time/capture.hpp"
#include "cuda_shim/time/context.hpp"

namespace warpserve::gpu {
namespace {

constexpr Error kDeviceUninitialized{201};
constexpr int kPageableMemoryAccess = 88;  // of CUdevice_attribute

bool blocks(const CopyPlan& plan, Blocking blocking) {
  if (plan.to_pageable()) return true;
  const bool within_devices =
      plan.route() == CopyRoute::kWithinDevice || plan.route() == CopyRoute::kPeer;
  return blocking == Blocking::kYes && !within_devices;
}

Status released(Status waited, int physical) {
  if (waited == Status::kOk) process_memory().pools().on_synchronize(physical);
  return waited;
}

Context& context_of_physical(int physical) {
  return Process::get().device(ordinal_of(physical)).time;
}

}  // namespace

Error error_of(MemoryStatus status) {
  switch (status) {
    case MemoryStatus::kOk:
      return Error::kSuccess;
    case MemoryStatus::kOutOfMemory:
      return Error::kOutOfMemory;
    case MemoryStatus::kInvalidValue:
    case MemoryStatus::kInvalidPointer:
    case MemoryStatus::kOutOfBounds:
    case MemoryStatus::kInvalidDirection:
      return Error::kInvalidValue;
    case MemoryStatus::kInvalidDevice:
      return Error::kInvalidDevice;
    case MemoryStatus::kInvalidPitch:
      return Error::kInvalidPitch;
    case MemoryStatus::kInvalidHandle:
      return Error::kInvalidHandle;
    case MemoryStatus::kSameProcess:
      return kDeviceUninitialized;
    case MemoryStatus::kAlreadyRegistered:
      return Error::kHostMemoryAlreadyRegistered;
    case MemoryStatus::kNotRegistered:
      return Error::kHostMemoryNotRegistered;
    case MemoryStatus::kNotSupported:
      return Error::kNotSupported;
  }
  return Error::kUnknown;
}

int ordinal_of(int physical) {
  Process& process = Process::get();
  for (int i = 0; i < process.device_count(); ++i) {
    if (process.device(i).physical == physical) return i;
  }
  return -1;
}

void refuse_in_capture() {
  if (check_unsafe_call() != Status::kOk) fail(Error::kCaptureUnsupported);
}

namespace {

// Of so many bytes on the plan's way.
Work work_of(Context& context, const CopyPlan& plan, std::uint64_t bytes) {
  switch (plan.route()) {
    case CopyRoute::kHostToHost:
      return EmptyWork();
    case CopyRoute::kHostToDevice:
      return context.copy_work(CopyDirection::kHostToDevice, bytes);
    case CopyRoute::kDeviceToHost:
      return context.copy_work(CopyDirection::kDeviceToHost, bytes);
    case CopyRoute::kWithinDevice:
      return context.copy_work(CopyDirection::kDeviceToDevice, bytes);
    case CopyRoute::kPeer:
      return context_of_physical(plan.from_device()).peer_copy_work(plan.to_device(), bytes);
  }
  fail(Error::kUnknown);
}

bool go_the_same_way(const CopyPlan& a, const CopyPlan& b) {
  if (a.route() != b.route()) return false;
  return a.route() != CopyRoute::kPeer ||
         (a.from_device() == b.from_device() && a.to_device() == b.to_device());
}

}  // namespace

Work copy_work(Context& context, const CopyPlan& plan) {
  return work_of(context, plan, plan.bytes());
}

Status copy(Stream& stream, const CopyPlan& plan, Blocking blocking) {
  const bool captures = stream.capture_info().state != CaptureState::kNone;
  if (plan.from_pageable() && !captures && !stream.tail().known()) {
    if (const Status status = stream.synchronize(); status != Status::kOk) return status;
  }
  const Status status = stream.submit(copy_work(stream.context(), plan), [plan] { plan.move(); });
  if (status != Status::kOk || captures || !blocks(plan, blocking)) return status;
  return stream.synchronize();
}

Status copy_batch(Stream& stream, const std::vector<CopyPlan>& plans) {
  const bool is_one_work = std::ranges::all_of(plans, [&](const CopyPlan& plan) {
    return go_the_same_way(plan, plans.front()) && !plan.from_pageable() &&
           !blocks(plan, Blocking::kNo);
  });
  if (is_one_work && !plans.empty()) {
    std::uint64_t bytes = 0;
    for (const CopyPlan& plan : plans) bytes += plan.bytes();
    return stream.submit(work_of(stream.context(), plans.front(), bytes), [plans] {
      for (const CopyPlan& plan : plans) plan.move();
    });
  }
  for (const CopyPlan& plan : plans) {
    if (const Status status = copy(stream, plan, Blocking::kNo); status != Status::kOk) {
      return status;
    }
  }
  return Status::kOk;
}

Status synchronize(Stream& stream) {
  return released(stream.synchronize(), device_of(stream).physical);
}

Status synchronize(Device& device) {
  return released(device.time.synchronize(), device.physical);
}

Status synchronize_event(void* event) {
  const auto found = handles<DeviceEvent>().find(event);
  require(found != nullptr, Error::kInvalidHandle);
  return released(found->event->synchronize(), Process::get().device(found->device).physical);
}

Status fill(Stream& stream, const FillPlan& plan) {
  return stream.submit(stream.context().fill_work(plan.bytes()), [plan] { plan.move(); });
}

Status prefetch(Stream& stream, Address address, std::uint64_t bytes) {
  require(address != 0 && bytes > 0);
  const PointerInfo info = value_of(process_memory().query(address));
  if (info.kind == MemoryKind::kUnregistered || info.kind == MemoryKind::kRegistered) {
    require(Process::get().attribute(kPageableMemoryAccess, device_of(stream).ordinal) != 0);
  } else {
    require(info.kind == MemoryKind::kManaged && bytes <= info.base + info.bytes - address);
  }
  return stream.submit(EmptyWork());
}

CopyKind copy_kind_of(std::uint32_t kind) {
  require(kind <= static_cast<std::uint32_t>(CopyKind::kInfer), Error::kInvalidCopyDirection);
  return static_cast<CopyKind>(kind);
}

void free_memory(Address address) {
  refuse_in_capture();
  if (address == 0) return;
  const PointerInfo info = value_of(process_memory().query(address));
  require(info.kind != MemoryKind::kUnregistered && info.base == address);
  if (const int ordinal = ordinal_of(info.device); ordinal >= 0) {
    require(Process::get().device(ordinal).time.synchronize() == Status::kOk,
            Error::kCaptureUnsupported);
  }
  if (!free_graph_memory(address)) expect(process_memory().free(address));
}

void free_pinned(Address address) {
  refuse_in_capture();
  if (address == 0) return;
  const PointerInfo info = value_of(process_memory().query(address));
  require(info.kind == MemoryKind::kPinned && info.base == address);
  if (ordinal_of(info.device) >= 0) {
    require(context_of_physical(info.device).await_work() == Status::kOk, Error::kNotPermitted);
  }
  expect(process_memory().host().free(address));
}

}  // namespace warpserve::gpu
