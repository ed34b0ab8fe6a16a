#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/kernels.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

// CUlaunchConfig.
struct LaunchConfiguration {
  std::uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  void* attributes;
  std::uint32_t attribute_count;
};

Status launch_kernel(Stream& stream, void* function, const LaunchShape& shape) {
  kernel_of(function);
  return launch(stream, shape, Error::kInvalidValue);
}

std::int32_t blocks_per_multiprocessor(void* function, std::int32_t block_threads,
                                       std::uint64_t shared_bytes) {
  kernel_of(function);
  return occupancy(current_device().ordinal, block_threads, shared_bytes);
}

constexpr int kMultiprocessorCount = 16;
constexpr std::int32_t kPortableClusterSize = 8;

}  // namespace

DRIVER_STREAM_CALL(
    cuLaunchKernel, cuLaunchKernel_ptsz,
    (void* function, std::uint32_t grid_x, std::uint32_t grid_y, std::uint32_t grid_z,
     std::uint32_t block_x, std::uint32_t block_y, std::uint32_t block_z,
     std::uint32_t shared_bytes, void* stream, void**, void**),
    return launch_kernel(*stream_of(stream, kDefaultStream), function,
                         {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes});)

DRIVER_STREAM_CALL(
    cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz,
    (void* function, std::uint32_t grid_x, std::uint32_t grid_y, std::uint32_t grid_z,
     std::uint32_t block_x, std::uint32_t block_y, std::uint32_t block_z,
     std::uint32_t shared_bytes, void* stream, void**),
    return launch_kernel(*stream_of(stream, kDefaultStream), function,
                         {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes});)

DRIVER_STREAM_CALL(cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
                   (const void* configuration, void* function, void**, void**),
                   require(configuration != nullptr);
                   const auto& asked = *static_cast<const LaunchConfiguration*>(configuration);
                   return launch_kernel(*stream_of(asked.stream, kDefaultStream), function,
                                        {{asked.grid[0], asked.grid[1], asked.grid[2]},
                                         {asked.block[0], asked.block[1], asked.block[2]},
                                         asked.shared_bytes});)

DRIVER_STREAM_CALL(cuLaunchHostFunc, cuLaunchHostFunc_ptsz,
                   (void* stream, void* function, void* data), require(function != nullptr);
                   const auto target = stream_of(stream, kDefaultStream);
                   return target->submit(target->context().host_work(
                       [call = reinterpret_cast<void (*)(void*)>(function), data] {
                         call(data);
                       }));)

std::uint32_t cuFuncGetAttribute(std::int32_t* value, std::uint32_t attribute, void* function) {
  return driver_call([&] {
    require(value != nullptr);
    *value = kernel_attribute(*kernel_of(function), attribute, current_device().ordinal);
  });
}

std::uint32_t cuKernelGetAttribute(std::int32_t* value, std::uint32_t attribute, void* kernel,
                                   std::int32_t device) {
  return driver_call([&] {
    require(value != nullptr);
    *value = kernel_attribute(*kernel_of(kernel), attribute, Process::get().device(device).ordinal);
  });
}

std::uint32_t cuFuncSetAttribute(void* function, std::uint32_t attribute, std::int32_t value) {
  return driver_call([&] {
    set_kernel_attribute(*kernel_of(function), attribute, value, current_device().ordinal);
  });
}

std::uint32_t cuKernelSetAttribute(std::uint32_t attribute, std::int32_t value, void* kernel,
                                   std::int32_t device) {
  return driver_call([&] {
    set_kernel_attribute(*kernel_of(kernel), attribute, value,
                         Process::get().device(device).ordinal);
  });
}

std::uint32_t cuFuncGetName(const char** name, void* function) {
  return driver_call([&] {
    require(name != nullptr);
    *name = kernel_of(function)->name.c_str();
  });
}

std::uint32_t cuKernelGetName(const char** name, void* kernel) {
  return driver_call([&] {
    require(name != nullptr);
    *name = kernel_of(kernel)->name.c_str();
  });
}

std::uint32_t cuFuncGetModule(void** module, void* function) {
  return driver_call([&] {
    require(module != nullptr);
    *module = kernel_of(function)->module.lock().get();
  });
}

std::uint32_t cuKernelGetLibrary(void** library, void* kernel) {
  return driver_call([&] {
    require(library != nullptr);
    *library = kernel_of(kernel)->module.lock().get();
  });
}

std::uint32_t cuKernelGetFunction(void** function, void* kernel) {
  return driver_call([&] {
    require(function != nullptr);
    *function = kernel_of(kernel).get();
  });
}

std::uint32_t cuFuncLoad(void* function) {
  return driver_call([&] { kernel_of(function); });
}

std::uint32_t cuFuncIsLoaded(std::uint32_t* state, void* function) {
  return driver_call([&] {
    require(state != nullptr);
    kernel_of(function);
    *state = 1;
  });
}

std::uint32_t cuOccupancyMaxActiveBlocksPerMultiprocessor(std::int32_t* blocks, void* function,
                                                          std::int32_t block_threads,
                                                          std::uint64_t shared_bytes) {
  return driver_call([&] {
    require(blocks != nullptr);
    *blocks = blocks_per_multiprocessor(function, block_threads, shared_bytes);
  });
}

std::uint32_t cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(std::int32_t* blocks,
                                                                   void* function,
                                                                   std::int32_t block_threads,
                                                                   std::uint64_t shared_bytes,
                                                                   std::uint32_t) {
  return driver_call([&] {
    require(blocks != nullptr);
    *blocks = blocks_per_multiprocessor(function, block_threads, shared_bytes);
  });
}

std::uint32_t cuOccupancyMaxActiveClusters(std::int32_t* clusters, void* function,
                                           const void* configuration) {
  return driver_call([&] {
    require(clusters != nullptr && configuration != nullptr);
    kernel_of(function);
    *clusters = Process::get().attribute(kMultiprocessorCount, current_device().ordinal);
  });
}

std::uint32_t cuOccupancyMaxPotentialClusterSize(std::int32_t* size, void* function,
                                                 const void* configuration) {
  return driver_call([&] {
    require(size != nullptr && configuration != nullptr);
    kernel_of(function);
    *size = kPortableClusterSize;
  });
}

std::uint32_t cuOccupancyAvailableDynamicSMemPerBlock(std::uint64_t* bytes, void* function,
                                                      std::int32_t blocks, std::int32_t) {
  return driver_call([&] {
    require(bytes != nullptr && blocks > 0);
    *bytes = static_cast<std::uint64_t>(
        kernel_attribute(*kernel_of(function), 8, current_device().ordinal));
  });
}
