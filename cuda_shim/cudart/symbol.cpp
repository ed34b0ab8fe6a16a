#include "cuda_shim/entry/kernels.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"

using namespace warpserve::gpu;

std::uint32_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return runtime_call([&] {
    require(address != nullptr);
    const Result<Address> found =
        registered_symbols().address(address_of(symbol), current_device().physical);
    require(found.ok(), Error::kInvalidSymbol);
    *address = pointer(found.value());
  });
}

std::uint32_t cudaGetSymbolSize(std::uint64_t* bytes, const void* symbol) {
  return runtime_call([&] {
    require(bytes != nullptr);
    const Result<std::uint64_t> size = registered_symbols().size(address_of(symbol));
    require(size.ok(), Error::kInvalidSymbol);
    *bytes = size.value();
  });
}
