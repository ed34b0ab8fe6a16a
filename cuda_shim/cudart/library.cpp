#include "cuda_shim/entry/kernels.hpp"
#include "cuda_shim/entry/runtime.hpp"

using namespace warpserve::gpu;

std::uint32_t cudaLibraryLoadData(void** library, const void* image, std::uint32_t*, void**,
                                  std::uint32_t, std::uint32_t*, void**, std::uint32_t) {
  return runtime_call([&] {
    require(library != nullptr);
    *library = load_module(image);
  });
}

std::uint32_t cudaLibraryLoadFromFile(void** library, const char* path, std::uint32_t*, void**,
                                      std::uint32_t, std::uint32_t*, void**, std::uint32_t) {
  return runtime_call([&] {
    require(library != nullptr);
    *library = load_module_file(path);
  });
}

std::uint32_t cudaLibraryUnload(void* library) {
  return runtime_call([&] { unload_module(library); });
}

std::uint32_t cudaLibraryGetKernel(void** kernel, void* library, const char* name) {
  return runtime_call([&] {
    require(kernel != nullptr);
    *kernel = kernel_handle(library, name);
  });
}

std::uint32_t cudaLibraryGetKernelCount(std::uint32_t* count, void* library) {
  return runtime_call([&] {
    require(count != nullptr);
    *count = kernel_count(library);
  });
}

std::uint32_t cudaLibraryEnumerateKernels(void** kernels, std::uint32_t count, void* library) {
  return runtime_call([&] { list_kernels(library, kernels, count); });
}
