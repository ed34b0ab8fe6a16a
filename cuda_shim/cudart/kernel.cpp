#include "cuda_shim/entry/kernels.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

constexpr Error kInvalidConfiguration{9};
constexpr int kMultiprocessorCount = 16;
constexpr std::int32_t kPortableClusterSize = 8;

struct LaunchConfiguration {
  warpserve::cuda_shim::abi::dim3 grid, block;
  std::uint64_t shared_bytes;
  void* stream;
  void* attributes;
  std::uint32_t attribute_count;
};

// cudaFuncAttributes.
struct FunctionAttributes {
  std::uint64_t shared_bytes, constant_bytes, local_bytes;
  std::int32_t max_threads_per_block, registers, ptx_version, binary_version, cache_mode;
  std::int32_t max_dynamic_shared_bytes, shared_carveout;
  std::int32_t cluster_must_be_set, cluster_width, cluster_height, cluster_depth;
  std::int32_t cluster_scheduling, non_portable_cluster;
  std::int32_t reserved[16];
};
static_assert(sizeof(FunctionAttributes) == 144);

Status launch_kernel(Stream& stream, const void* function,
                     const warpserve::cuda_shim::abi::dim3& grid,
                     const warpserve::cuda_shim::abi::dim3& block, std::uint64_t shared_bytes) {
  kernel_of_stub(function);
  return launch(stream, {{grid.f0, grid.f1, grid.f2}, {block.f0, block.f1, block.f2}, shared_bytes},
                kInvalidConfiguration);
}

std::int32_t blocks_per_multiprocessor(const void* function, std::int32_t block_threads,
                                       std::uint64_t shared_bytes) {
  kernel_of_stub(function);
  return occupancy(current_device().ordinal, block_threads, shared_bytes);
}

}  // namespace

RUNTIME_STREAM_CALL(cudaLaunchKernel, cudaLaunchKernel_ptsz,
                    (const void* function, warpserve::cuda_shim::abi::dim3 grid,
                     warpserve::cuda_shim::abi::dim3 block, void**, std::uint64_t shared_bytes,
                     void* stream),
                    return launch_kernel(*stream_of(stream, kDefaultStream), function, grid, block,
                                         shared_bytes);)

RUNTIME_STREAM_CALL(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz,
                    (const void* function, warpserve::cuda_shim::abi::dim3 grid,
                     warpserve::cuda_shim::abi::dim3 block, void**, std::uint64_t shared_bytes,
                     void* stream),
                    return launch_kernel(*stream_of(stream, kDefaultStream), function, grid, block,
                                         shared_bytes);)

RUNTIME_STREAM_CALL(__cudaLaunchKernel, __cudaLaunchKernel_ptsz,
                    (void* function, warpserve::cuda_shim::abi::dim3 grid,
                     warpserve::cuda_shim::abi::dim3 block, void**, std::uint64_t shared_bytes,
                     void* stream),
                    return launch_kernel(*stream_of(stream, kDefaultStream), function, grid, block,
                                         shared_bytes);)

RUNTIME_STREAM_CALL(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz,
                    (const void* configuration, const void* function, void**),
                    require(configuration != nullptr);
                    const auto& asked = *static_cast<const LaunchConfiguration*>(configuration);
                    return launch_kernel(*stream_of(asked.stream, kDefaultStream), function,
                                         asked.grid, asked.block, asked.shared_bytes);)

RUNTIME_STREAM_CALL(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz,
                    (void* stream, void* function, void* data), require(function != nullptr);
                    const auto target = stream_of(stream, kDefaultStream);
                    return target->submit(target->context().host_work(
                        [call = reinterpret_cast<void (*)(void*)>(function), data] {
                          call(data);
                        }));)

std::uint32_t cudaFuncGetAttributes(void* attributes, const void* function) {
  return runtime_call([&] {
    require(attributes != nullptr);
    const auto kernel = kernel_of_stub(function);
    const int device = current_device().ordinal;
    *static_cast<FunctionAttributes*>(attributes) = {
        .max_threads_per_block = kernel_attribute(*kernel, 0, device),
        .registers = kKernelRegisters,
        .ptx_version = kernel_attribute(*kernel, 5, device),
        .binary_version = kernel_attribute(*kernel, 6, device),
        .max_dynamic_shared_bytes = kernel_attribute(*kernel, 8, device),
        .shared_carveout = -1};
  });
}

std::uint32_t cudaFuncSetAttribute(const void* function, std::uint32_t attribute,
                                   std::int32_t value) {
  return runtime_call([&] {
    set_kernel_attribute(*kernel_of_stub(function), attribute, value, current_device().ordinal);
  });
}

std::uint32_t cudaKernelSetAttributeForDevice(void* kernel, std::uint32_t attribute,
                                              std::int32_t value, std::int32_t device) {
  return runtime_call([&] {
    set_kernel_attribute(*kernel_of(kernel), attribute, value,
                         Process::get().device(device).ordinal);
  });
}

std::uint32_t cudaFuncGetName(const char** name, const void* function) {
  return runtime_call([&] {
    require(name != nullptr);
    *name = kernel_of_stub(function)->name.c_str();
  });
}

std::uint32_t cudaGetFuncBySymbol(void** kernel, const void* function) {
  return runtime_call([&] {
    require(kernel != nullptr);
    *kernel = kernel_handle_of_stub(function);
  });
}

std::uint32_t cudaGetKernel(void** kernel, const void* function) {
  return runtime_call([&] {
    require(kernel != nullptr);
    *kernel = kernel_handle_of_stub(function);
  });
}

std::uint32_t __cudaGetKernel(void** kernel, const void* function) {
  return runtime_call([&] {
    require(kernel != nullptr);
    *kernel = kernel_handle_of_stub(function);
  });
}

std::uint32_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(std::int32_t* blocks,
                                                            const void* function,
                                                            std::int32_t block_threads,
                                                            std::uint64_t shared_bytes) {
  return runtime_call([&] {
    require(blocks != nullptr);
    *blocks = blocks_per_multiprocessor(function, block_threads, shared_bytes);
  });
}

std::uint32_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(std::int32_t* blocks,
                                                                     const void* function,
                                                                     std::int32_t block_threads,
                                                                     std::uint64_t shared_bytes,
                                                                     std::uint32_t) {
  return runtime_call([&] {
    require(blocks != nullptr);
    *blocks = blocks_per_multiprocessor(function, block_threads, shared_bytes);
  });
}

std::uint32_t cudaOccupancyMaxActiveClusters(std::int32_t* clusters, const void* function,
                                             const void* configuration) {
  return runtime_call([&] {
    require(clusters != nullptr && configuration != nullptr);
    kernel_of_stub(function);
    *clusters = Process::get().attribute(kMultiprocessorCount, current_device().ordinal);
  });
}

std::uint32_t cudaOccupancyMaxPotentialClusterSize(std::int32_t* size, const void* function,
                                                   const void* configuration) {
  return runtime_call([&] {
    require(size != nullptr && configuration != nullptr);
    kernel_of_stub(function);
    *size = kPortableClusterSize;
  });
}

std::uint32_t cudaOccupancyAvailableDynamicSMemPerBlock(std::uint64_t* bytes, const void* function,
                                                        std::int32_t blocks, std::int32_t) {
  return runtime_call([&] {
    require(bytes != nullptr && blocks > 0);
    *bytes = static_cast<std::uint64_t>(
        kernel_attribute(*kernel_of_stub(function), 8, current_device().ordinal));
  });
}

#if WARPSERVE_CUDA_MAJOR >= 13
RUNTIME_STREAM_CALL(
    cudaLaunchHostFunc_v2, cudaLaunchHostFunc_v2_ptsz,
    (void* stream, void* function, void* data, std::uint32_t), require(function != nullptr);
    const auto target = stream_of(stream, kDefaultStream);
    return target->submit(target->context().host_work(
        [call = reinterpret_cast<void (*)(void*)>(function), data] { call(data); }));)
#endif
