#include "cuda_shim/entry/kernels.hpp"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda_shim/entry/handles.hpp"
#include "cuda_shim/entry/host_operators.hpp"
#include "cuda_shim/memory/memory.hpp"

namespace warpserve::gpu {
namespace {

// Numbers of CUdevice_attribute.
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockX = 2,
  kMaxGridX = 5,
  kMaxSharedPerBlock = 8,
  kWarpSize = 10,
  kMaxThreadsPerMultiprocessor = 39,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kMaxSharedPerMultiprocessor = 81,
  kMaxSharedPerBlockOptIn = 97,
  kMaxBlocksPerMultiprocessor = 106,
  kReservedSharedPerBlock = 111,
};

enum KernelAttribute : std::uint32_t {
  kThreadsPerBlock = 0,
  kRegisters = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kMaxDynamicShared = 8,
  kSharedCarveout = 9,
  kAttributeEnd = 16,
};

struct PendingSymbol {
  const void* variable;
  std::string name;
  std::uint64_t bytes;
};

struct Registrations {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<Kernel>> kernels;  // by stub
  std::vector<PendingSymbol> symbols;  // registered before anyone used the GPUs' memory
};

// Never destroyed: programs unregister from their destructors.
Registrations& registrations() {
  static auto& instance = *std::make_unique<Registrations>().release();
  return instance;
}

std::int32_t attribute(int number, int device) {
  return Process::get().attribute(number, device);
}

}  // namespace

void* load_module(const void* image) {
  require(image != nullptr);
  return handles<Module>().add(std::make_shared<Module>());
}

void* load_module_file(const char* path) {
  require(path != nullptr);
  require(access(path, R_OK) == 0, Error::kFileNotFound);
  return handles<Module>().add(std::make_shared<Module>());
}

void unload_module(void* handle) {
  const auto module = handles<Module>().remove(handle);
  require(module != nullptr, Error::kInvalidHandle);
  const std::lock_guard lock(module->mutex);
  for (const auto& [name, kernel] : module->kernels) handles<Kernel>().remove(kernel.get());
  Registrations& known = registrations();
  const std::lock_guard registrations_lock(known.mutex);
  std::erase_if(known.kernels,
                [&](const auto& entry) { return entry.second->module.lock() == module; });
}

std::shared_ptr<Module> module_of(void* handle) {
  auto module = handles<Module>().find(handle);
  require(module != nullptr, Error::kInvalidHandle);
  return module;
}

void* kernel_handle(void* module, const char* name) {
  require(name != nullptr);
  const auto owner = module_of(module);
  const std::lock_guard lock(owner->mutex);
  auto& kernel = owner->kernels[name];
  if (kernel == nullptr) {
    kernel = std::make_shared<Kernel>(name, owner);
    handles<Kernel>().add(kernel);
  }
  return kernel.get();
}

std::uint32_t kernel_count(void* module) {
  const auto owner = module_of(module);
  const std::lock_guard lock(owner->mutex);
  return std::max(1U, static_cast<std::uint32_t>(owner->kernels.size()));
}

void list_kernels(void* module, void** kernels, std::uint32_t count) {
  require(kernels != nullptr || count == 0);
  const auto owner = module_of(module);
  std::unique_lock lock(owner->mutex);
  if (owner->kernels.empty()) {
    lock.unlock();
    kernel_handle(module, "");
    lock.lock();
  }
  for (const auto& [name, kernel] : owner->kernels) {
    if (count-- == 0) return;
    *kernels++ = kernel.get();
  }
}

std::shared_ptr<Kernel> kernel_of(const void* handle) {
  auto kernel = handles<Kernel>().find(handle);
  require(kernel != nullptr, Error::kInvalidHandle);
  return kernel;
}

void register_kernel(void* module, const void* host_function, const char* name) {
  const auto kernel = kernel_of(kernel_handle(module, name));
  Registrations& known = registrations();
  const std::lock_guard lock(known.mutex);
  known.kernels[host_function] = kernel;
}

std::shared_ptr<Kernel> kernel_of_stub(const void* function) {
  {
    Registrations& known = registrations();
    const std::lock_guard lock(known.mutex);
    if (const auto found = known.kernels.find(function); found != known.kernels.end()) {
      return found->second;
    }
  }
  auto kernel = handles<Kernel>().find(function);
  require(kernel != nullptr, Error::kInvalidDeviceFunction);
  return kernel;
}

void* kernel_handle_of_stub(const void* function) {
  return kernel_of_stub(function).get();
}

void register_symbol(const void* host_variable, const char* name, std::uint64_t bytes) {
  Registrations& known = registrations();
  const std::lock_guard lock(known.mutex);
  known.symbols.push_back({host_variable, name, bytes});
}

Symbols& registered_symbols() {
  Symbols& symbols = process_memory().symbols();
  Registrations& known = registrations();
  const std::lock_guard lock(known.mutex);
  for (auto& [variable, name, bytes] : std::exchange(known.symbols, {})) {
    symbols.add(address_of(variable), std::move(name), bytes);
  }
  return symbols;
}

Status launch(Stream& stream, const LaunchShape& shape, Error wrong_shape) {
  check_host_operators();
  const int device = Thread::get().current_device();
  std::uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const auto grid_limit = static_cast<std::uint32_t>(attribute(kMaxGridX + axis, device));
    const auto block_limit = static_cast<std::uint32_t>(attribute(kMaxBlockX + axis, device));
    require(shape.grid[axis] > 0 && shape.grid[axis] <= grid_limit, wrong_shape);
    require(shape.block[axis] > 0 && shape.block[axis] <= block_limit, wrong_shape);
    threads *= shape.block[axis];
  }
  require(threads <= static_cast<std::uint64_t>(attribute(kMaxThreadsPerBlock, device)),
          wrong_shape);
  const auto shared_limit = static_cast<std::uint64_t>(attribute(kMaxSharedPerBlockOptIn, device));
  require(shape.dynamic_shared_bytes <= shared_limit);
  return stream.enqueue({});
}

std::int32_t kernel_attribute(const Kernel& kernel, std::uint32_t number, int device) {
  require(number < kAttributeEnd);
  switch (number) {
    case kThreadsPerBlock:
      return attribute(kMaxThreadsPerBlock, device);
    case kRegisters:
      return kKernelRegisters;
    case kPtxVersion:
    case kBinaryVersion:
      return attribute(kComputeMajor, device) * 10 + attribute(kComputeMinor, device);
    case kMaxDynamicShared: {
      const std::int32_t set = kernel.max_dynamic_shared_bytes;
      return set >= 0 ? set : attribute(kMaxSharedPerBlock, device);
    }
    case kSharedCarveout:
      return -1;
    default:
      return 0;
  }
}

void set_kernel_attribute(Kernel& kernel, std::uint32_t number, std::int32_t value, int device) {
  require(number >= kMaxDynamicShared && number < kAttributeEnd);
  if (number != kMaxDynamicShared) return;
  require(value >= 0 && value <= attribute(kMaxSharedPerBlockOptIn, device));
  kernel.max_dynamic_shared_bytes = value;
}

std::int32_t occupancy(int device, std::int32_t block_threads, std::uint64_t shared_bytes) {
  require(block_threads > 0);
  if (block_threads > attribute(kMaxThreadsPerBlock, device)) return 0;
  const std::int32_t warp = attribute(kWarpSize, device);
  const std::int32_t threads = (block_threads + warp - 1) / warp * warp;
  std::int32_t blocks = std::min(attribute(kMaxThreadsPerMultiprocessor, device) / threads,
                                 attribute(kMaxBlocksPerMultiprocessor, device));
  if (shared_bytes > 0) {
    const auto per_block =
        shared_bytes + static_cast<std::uint64_t>(attribute(kReservedSharedPerBlock, device));
    const auto available =
        static_cast<std::uint64_t>(attribute(kMaxSharedPerMultiprocessor, device));
    blocks = std::min(blocks, static_cast<std::int32_t>(available / per_block));
  }
  return blocks;
}

}  // namespace warpserve::gpu
