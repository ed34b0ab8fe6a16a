#include <vector>

#include "cuda_shim/entry/kernels.hpp"
#include "cuda_shim/entry/runtime.hpp"

using namespace warpserve::gpu;

// What the code that nvcc adds to a program calls before main, between <<<>>> and a launch, and
// when the program ends. Nothing here uses the GPUs: there may be none.

namespace {

struct CallConfiguration {
  warpserve::cuda_shim::abi::dim3 grid, block;
  std::uint64_t shared_bytes;
  void* stream;
};

thread_local std::vector<CallConfiguration> configurations;

}  // namespace

void** __cudaRegisterFatBinary(void* image) {
  return static_cast<void**>(load_module(image));
}

void __cudaUnregisterFatBinary(void** module) {
  static_cast<void>(guarded([&] { unload_module(module); }));
}

void __cudaRegisterFunction(void** module, const char* host_function, char*, const char* name,
                            std::int32_t, void*, void*, void*, void*, std::int32_t*) {
  static_cast<void>(guarded([&] { register_kernel(module, host_function, name); }));
}

void __cudaRegisterVar(void**, char* host_variable, char*, const char* name, std::int32_t,
                       std::uint64_t bytes, std::int32_t, std::int32_t) {
  static_cast<void>(guarded([&] { register_symbol(host_variable, name, bytes); }));
}

std::uint32_t __cudaPushCallConfiguration(warpserve::cuda_shim::abi::dim3 grid,
                                          warpserve::cuda_shim::abi::dim3 block,
                                          std::uint64_t shared_bytes, void* stream) {
  return static_cast<std::uint32_t>(
      guarded([&] { configurations.push_back({grid, block, shared_bytes, stream}); }));
}

std::uint32_t __cudaPopCallConfiguration(void* grid, void* block, std::uint64_t* shared_bytes,
                                         void* stream) {
  return runtime_call([&] {
    require(!configurations.empty());
    const CallConfiguration last = configurations.back();
    configurations.pop_back();
    *static_cast<warpserve::cuda_shim::abi::dim3*>(grid) = last.grid;
    *static_cast<warpserve::cuda_shim::abi::dim3*>(block) = last.block;
    *shared_bytes = last.shared_bytes;
    *static_cast<void**>(stream) = last.stream;
  });
}
