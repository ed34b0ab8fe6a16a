#include "cuda_shim/entry/contexts.hpp"

#include "cuda_shim/entry/devices.hpp"
#include "cuda_shim/entry/handles.hpp"

namespace warpserve::gpu {
namespace {

// Contexts of a device share its memory and streams, which go with the last of them.
void reset_without_contexts(Device& device) {
  {
    const std::lock_guard lock(device.mutex);
    if (device.primary_references > 0) return;
  }
  const bool has_others = handles<DriverContext>().any_of(
      [&](const DriverContext& context) { return context.device == device.ordinal; });
  if (!has_others) reset_device(device);
}

}  // namespace

std::shared_ptr<DriverContext> context_of(void* handle) {
  Process& process = Process::get();
  for (int i = 0; i < process.device_count(); ++i) {
    if (process.device(i).primary_context.get() == handle) return process.device(i).primary_context;
  }
  auto context = handles<DriverContext>().find(handle);
  require(context != nullptr, Error::kInvalidContext);
  return context;
}

void* create_context(Device& device, std::uint32_t flags) {
  device.open();
  auto context = std::make_shared<DriverContext>(
      DriverContext{.device = device.ordinal, .flags = flags, .id = next_context_id()});
  void* const handle = handles<DriverContext>().add(context);
  Thread::get().contexts.push_back(std::move(context));
  return handle;
}

void destroy_context(void* handle) {
  const auto context = handles<DriverContext>().remove(handle);
  require(context != nullptr, Error::kInvalidContext);
  auto& contexts = Thread::get().contexts;
  if (!contexts.empty() && contexts.back() == context) contexts.pop_back();
  reset_without_contexts(Process::get().device(context->device));
}

void release_primary_context(Device& device) {
  device.release_primary();
  reset_without_contexts(device);
}

}  // namespace warpserve::gpu
