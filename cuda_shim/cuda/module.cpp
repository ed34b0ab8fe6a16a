#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/kernels.hpp"
#include "cuda_shim/entry/memory.hpp"

using namespace warpserve::gpu;

namespace {

constexpr std::uint32_t kLazyLoading = 2;  // CU_MODULE_LAZY_LOADING

// The variable of device code that has the name, where a program registered one.
void find_global(const char* name, std::uint64_t* address, std::uint64_t* bytes) {
  require(name != nullptr);
  Symbols& symbols = registered_symbols();
  const Result<Address> key = symbols.key_of(name);
  require(key.ok(), Error::kNotFound);
  if (address != nullptr)
    *address = value_of(symbols.address(key.value(), current_device().physical));
  if (bytes != nullptr) *bytes = value_of(symbols.size(key.value()));
}

}  // namespace

std::uint32_t cuModuleLoad(void** module, const char* path) {
  return driver_call([&] {
    require(module != nullptr);
    *module = load_module_file(path);
  });
}

std::uint32_t cuModuleLoadData(void** module, const void* image) {
  return driver_call([&] {
    require(module != nullptr);
    *module = load_module(image);
  });
}

std::uint32_t cuModuleLoadDataEx(void** module, const void* image, std::uint32_t, std::uint32_t*,
                                 void**) {
  return driver_call([&] {
    require(module != nullptr);
    *module = load_module(image);
  });
}

std::uint32_t cuModuleLoadFatBinary(void** module, const void* image) {
  return driver_call([&] {
    require(module != nullptr);
    *module = load_module(image);
  });
}

std::uint32_t cuModuleUnload(void* module) {
  return driver_call([&] { unload_module(module); });
}

std::uint32_t cuModuleGetFunction(void** function, void* module, const char* name) {
  return driver_call([&] {
    require(function != nullptr);
    *function = kernel_handle(module, name);
  });
}

std::uint32_t cuModuleGetFunctionCount(std::uint32_t* count, void* module) {
  return driver_call([&] {
    require(count != nullptr);
    *count = kernel_count(module);
  });
}

std::uint32_t cuModuleEnumerateFunctions(void** functions, std::uint32_t count, void* module) {
  return driver_call([&] { list_kernels(module, functions, count); });
}

std::uint32_t cuModuleGetGlobal_v2(std::uint64_t* address, std::uint64_t* bytes, void* module,
                                   const char* name) {
  return driver_call([&] {
    module_of(module);
    find_global(name, address, bytes);
  });
}

std::uint32_t cuModuleGetLoadingMode(std::uint32_t* mode) {
  return driver_call([&] {
    require(mode != nullptr);
    *mode = kLazyLoading;
  });
}

std::uint32_t cuLibraryLoadData(void** library, const void* image, std::uint32_t*, void**,
                                std::uint32_t, std::uint32_t*, void**, std::uint32_t) {
  return driver_call([&] {
    require(library != nullptr);
    *library = load_module(image);
  });
}

std::uint32_t cuLibraryLoadFromFile(void** library, const char* path, std::uint32_t*, void**,
                                    std::uint32_t, std::uint32_t*, void**, std::uint32_t) {
  return driver_call([&] {
    require(library != nullptr);
    *library = load_module_file(path);
  });
}

std::uint32_t cuLibraryUnload(void* library) {
  return driver_call([&] { unload_module(library); });
}

std::uint32_t cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  return driver_call([&] {
    require(kernel != nullptr);
    *kernel = kernel_handle(library, name);
  });
}

std::uint32_t cuLibraryGetKernelCount(std::uint32_t* count, void* library) {
  return driver_call([&] {
    require(count != nullptr);
    *count = kernel_count(library);
  });
}

std::uint32_t cuLibraryEnumerateKernels(void** kernels, std::uint32_t count, void* library) {
  return driver_call([&] { list_kernels(library, kernels, count); });
}

std::uint32_t cuLibraryGetModule(void** module, void* library) {
  return driver_call([&] {
    require(module != nullptr);
    module_of(library);
    *module = library;
  });
}

std::uint32_t cuLibraryGetGlobal(std::uint64_t* address, std::uint64_t* bytes, void* library,
                                 const char* name) {
  return driver_call([&] {
    module_of(library);
    find_global(name, address, bytes);
  });
}
