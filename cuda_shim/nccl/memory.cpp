#include "cuda_shim/entry/memory.hpp"

#include "cuda_shim/nccl/call.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nccl;

std::uint32_t ncclMemAlloc(void** address, std::uint64_t bytes) {
  return nccl_call([&] {
    not_null(address, "ptr");
    require(bytes > 0, Outcome::kInvalidArgument, "an allocation of 0 bytes");
    refuse_in_capture();
    *address = pointer(value_of(process_memory().allocate(current_device().physical, bytes)));
  });
}

std::uint32_t ncclMemFree(void* address) {
  return nccl_call([&] { free_memory(address_of(address)); });
}

// Registered buffers make real transfers faster; the model of their time does not tell them apart.

std::uint32_t ncclCommRegister(void* comm, void* buffer, std::uint64_t bytes, void** handle) {
  return nccl_call([&] {
    communicator_of(comm);
    require(process_memory().contents(address_of(buffer), bytes).ok(), Outcome::kInvalidArgument,
            "the buffer is not allocated, or too small");
    not_null(handle, "handle") = buffer;
  });
}

std::uint32_t ncclCommDeregister(void* comm, void*) {
  return nccl_call([&] { communicator_of(comm); });
}

std::uint32_t ncclCommWindowRegister(void* comm, void* buffer, std::uint64_t bytes, void** window,
                                     std::int32_t) {
  return ncclCommRegister(comm, buffer, bytes, window);
}

std::uint32_t ncclCommWindowDeregister(void* comm, void* window) {
  return ncclCommDeregister(comm, window);
}
