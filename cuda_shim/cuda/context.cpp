#include "cuda_shim/entry/contexts.hpp"
#include "cuda_shim/entry/devices.hpp"
#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

constexpr std::uint32_t kApiVersion = 3020;

std::uint32_t create(void** context, std::uint32_t flags, std::int32_t device) {
  return driver_call([&] {
    require(context != nullptr);
    *context = create_context(Process::get().device(device), flags);
  });
}

std::uint32_t destroy(void* context) {
  return driver_call([&] { destroy_context(context); });
}

std::uint32_t push(void* context) {
  return driver_call([&] { Thread::get().contexts.push_back(context_of(context)); });
}

std::uint32_t pop(void** context) {
  return driver_call([&] {
    Thread& thread = Thread::get();
    const auto popped = thread.current_context();
    thread.contexts.pop_back();
    if (context != nullptr) *context = popped.get();
  });
}

std::uint32_t release_primary(std::int32_t device) {
  return driver_call([&] { release_primary_context(Process::get().device(device)); });
}

std::uint32_t reset_primary(std::int32_t device) {
  return driver_call([&] { reset_device(Process::get().device(device)); });
}

}  // namespace

std::uint32_t cuDevicePrimaryCtxRetain(void** context, std::int32_t device) {
  return driver_call([&] {
    require(context != nullptr);
    Device& chosen = Process::get().device(device);
    chosen.open();
    const std::lock_guard lock(chosen.mutex);
    ++chosen.primary_references;
    *context = chosen.primary_context.get();
  });
}

std::uint32_t cuDevicePrimaryCtxRelease(std::int32_t device) {
  return release_primary(device);
}
std::uint32_t cuDevicePrimaryCtxRelease_v2(std::int32_t device) {
  return release_primary(device);
}
std::uint32_t cuDevicePrimaryCtxReset(std::int32_t device) {
  return reset_primary(device);
}
std::uint32_t cuDevicePrimaryCtxReset_v2(std::int32_t device) {
  return reset_primary(device);
}

std::uint32_t cuDevicePrimaryCtxGetState(std::int32_t device, std::uint32_t* flags,
                                         std::int32_t* active) {
  return driver_call([&] {
    require(flags != nullptr && active != nullptr);
    Device& chosen = Process::get().device(device);
    const std::lock_guard lock(chosen.mutex);
    *flags = chosen.primary_flags;
    *active = chosen.primary_references > 0 ? 1 : 0;
  });
}

std::uint32_t cuDevicePrimaryCtxSetFlags(std::int32_t device, std::uint32_t flags) {
  return driver_call([&] { set_primary_flags(Process::get().device(device), flags); });
}
std::uint32_t cuDevicePrimaryCtxSetFlags_v2(std::int32_t device, std::uint32_t flags) {
  return driver_call([&] { set_primary_flags(Process::get().device(device), flags); });
}

std::uint32_t cuCtxCreate(void** context, std::uint32_t flags, std::int32_t device) {
  return create(context, flags, device);
}
std::uint32_t cuCtxCreate_v2(void** context, std::uint32_t flags, std::int32_t device) {
  return create(context, flags, device);
}
std::uint32_t cuCtxCreate_v3(void** context, void*, std::int32_t, std::uint32_t flags,
                             std::int32_t device) {
  return create(context, flags, device);
}
std::uint32_t cuCtxCreate_v4(void** context, void*, std::uint32_t flags, std::int32_t device) {
  return create(context, flags, device);
}

std::uint32_t cuCtxDestroy(void* context) {
  return destroy(context);
}
std::uint32_t cuCtxDestroy_v2(void* context) {
  return destroy(context);
}
std::uint32_t cuCtxPushCurrent(void* context) {
  return push(context);
}
std::uint32_t cuCtxPushCurrent_v2(void* context) {
  return push(context);
}
std::uint32_t cuCtxPopCurrent(void** context) {
  return pop(context);
}
std::uint32_t cuCtxPopCurrent_v2(void** context) {
  return pop(context);
}

std::uint32_t cuCtxSetCurrent(void* context) {
  return driver_call([&] {
    Thread& thread = Thread::get();
    auto chosen = context == nullptr ? nullptr : context_of(context);
    if (thread.contexts.empty()) thread.contexts.emplace_back();
    thread.contexts.back() = std::move(chosen);
  });
}

std::uint32_t cuCtxGetCurrent(void** context) {
  return driver_call([&] {
    require(context != nullptr);
    const auto& contexts = Thread::get().contexts;
    *context = contexts.empty() ? nullptr : contexts.back().get();
  });
}

std::uint32_t cuCtxGetDevice(std::int32_t* device) {
  return driver_call([&] {
    require(device != nullptr);
    *device = Thread::get().current_context()->device;
  });
}

std::uint32_t cuCtxGetDevice_v2(std::int32_t* device, void* context) {
  return driver_call([&] {
    require(device != nullptr);
    *device = (context == nullptr ? Thread::get().current_context() : context_of(context))->device;
  });
}

std::uint32_t cuCtxGetFlags(std::uint32_t* flags) {
  return driver_call([&] {
    require(flags != nullptr);
    *flags = Thread::get().current_context()->flags;
  });
}

std::uint32_t cuCtxGetId(void* context, std::uint64_t* id) {
  return driver_call([&] {
    require(id != nullptr);
    *id = (context == nullptr ? Thread::get().current_context() : context_of(context))->id;
  });
}

std::uint32_t cuCtxGetApiVersion(void* context, std::uint32_t* version) {
  return driver_call([&] {
    require(version != nullptr);
    if (context != nullptr) context_of(context);
    *version = kApiVersion;
  });
}

std::uint32_t cuCtxSynchronize() {
  return driver_call([] { return synchronize(current_device()); });
}

std::uint32_t cuCtxGetLimit(std::uint64_t* value, std::uint32_t number) {
  return driver_call([&] {
    require(value != nullptr);
    *value = limit(current_device(), number);
  });
}

std::uint32_t cuCtxSetLimit(std::uint32_t number, std::uint64_t value) {
  return driver_call([&] { set_limit(current_device(), number, value); });
}

std::uint32_t cuCtxGetStreamPriorityRange(std::int32_t* least, std::int32_t* greatest) {
  return driver_call([&] {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
  });
}

std::uint32_t cuCtxEnablePeerAccess(void* peer, std::uint32_t flags) {
  return driver_call([&] {
    require(flags == 0);
    enable_peer_access(current_device(), context_of(peer)->device);
  });
}

std::uint32_t cuCtxDisablePeerAccess(void* peer) {
  return driver_call([&] { disable_peer_access(current_device(), context_of(peer)->device); });
}
