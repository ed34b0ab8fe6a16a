// Modules, kernels and launches. Images are opaque: any is accepted, has every kernel that is asked
// for by name, and no kernel runs. A launch takes its place in the stream and no time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cuda_shim/entry/call.hpp"
#include "cuda_shim/memory/symbols.hpp"
#include "cuda_shim/time/stream.hpp"

namespace warpserve::gpu {

struct Module;

// What CUfunction, CUkernel and cudaKernel_t stand for.
struct Kernel {
  std::string name;
  std::weak_ptr<Module> module;
  // As the program set it, for all devices; negative: it did not.
  std::atomic<std::int32_t> max_dynamic_shared_bytes = -1;

  Kernel(std::string its_name, std::weak_ptr<Module> its_module)
      : name(std::move(its_name)), module(std::move(its_module)) {}
};

// What CUmodule, CUlibrary and cudaLibrary_t stand for.
struct Module {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Kernel>> kernels;  // that were asked for
};

// Throws Failure(kInvalidValue) for a null image, kFileNotFound for a file that can't be read.
void* load_module(const void* image);
void* load_module_file(const char* path);
// Its kernels are gone, too. Throws Failure(kInvalidHandle).
void unload_module(void* handle);
std::shared_ptr<Module> module_of(void* handle);

void* kernel_handle(void* module, const char* name);
// At most `count` of those that were asked for; one without a name where nobody has yet, for images
// that have one only.
void list_kernels(void* module, void** kernels, std::uint32_t count);
std::uint32_t kernel_count(void* module);
// Throws Failure(kInvalidHandle).
std::shared_ptr<Kernel> kernel_of(const void* handle);

// --- What programs compiled with nvcc register as they start: by the address of the host's stub.
void register_kernel(void* module, const void* host_function, const char* name);
// The kernel of a stub or a handle; throws Failure(kInvalidDeviceFunction).
std::shared_ptr<Kernel> kernel_of_stub(const void* function);
// Its handle.
void* kernel_handle_of_stub(const void* function);

void register_symbol(const void* host_variable, const char* name, std::uint64_t bytes);
// With all that was registered.
Symbols& registered_symbols();

// --- Launches
struct LaunchShape {
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint64_t dynamic_shared_bytes;
};
// Throws Failure(`wrong_shape`) where the device can't have that, Failure(kInvalidValue) where no
// kernel can have so much shared memory on it.
Status launch(Stream& stream, const LaunchShape& shape, Error wrong_shape);

// --- Attributes. Kernels are opaque, so they are those of a small one: 32 registers, no shared
// memory of its own.
inline constexpr std::int32_t kKernelRegisters = 32;
// By CUfunction_attribute.
std::int32_t kernel_attribute(const Kernel& kernel, std::uint32_t attribute, int device);
// Throws Failure(kInvalidValue) where the attribute can't be set or have the value on the device.
void set_kernel_attribute(Kernel& kernel, std::uint32_t attribute, std::int32_t value, int device);
// How many blocks fit on a multiprocessor.
std::int32_t occupancy(int device, std::int32_t block_threads, std::uint64_t shared_bytes);

}  // namespace warpserve::gpu
