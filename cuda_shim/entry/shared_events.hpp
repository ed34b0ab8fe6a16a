// Events that several processes of a session use (cudaIpcGetEventHandle).
//
// The maker keeps them in a file of its own, which the others map through /proc/PID/fd: a slot an
// event, with the ends of its last records. An end is an instant of the session's clock, the same
// for all, or still pending; then whoever waits for it sleeps until the slot changes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "cuda_shim/time/event.hpp"

namespace warpserve::gpu {

// As large as cudaIpcEventHandle_t; its contents are ours.
using IpcEventHandle = std::array<std::byte, 64>;

class SharedEvent : public EventMirror {
 public:
  virtual IpcEventHandle handle() const = 0;
  virtual int physical_device() const = 0;
};

// Throws Failure(kOutOfMemory) where the process has too many.
std::shared_ptr<SharedEvent> make_shared_event(int physical_device);
// Throws Failure(kInvalidHandle) where the maker has ended or destroyed it.
std::shared_ptr<SharedEvent> open_shared_event(const IpcEventHandle& handle);

}  // namespace warpserve::gpu
