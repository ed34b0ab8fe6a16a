#include <bit>
#include <cstring>

#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

std::uint32_t cudaIpcGetMemHandle(void* handle, void* address) {
  return runtime_call([&] {
    require(handle != nullptr);
    const IpcHandle made = value_of(process_memory().ipc().get_handle(address_of(address)));
    std::memcpy(handle, made.data(), made.size());
  });
}

std::uint32_t cudaIpcOpenMemHandle(void** address,
                                   warpserve::cuda_shim::abi::cudaIpcMemHandle_t handle,
                                   std::uint32_t) {
  return runtime_call([&] {
    require(address != nullptr);
    current_device();
    *address = pointer(value_of(process_memory().ipc().open(std::bit_cast<IpcHandle>(handle))));
  });
}

std::uint32_t cudaIpcCloseMemHandle(void* address) {
  return runtime_call([&] { expect(process_memory().ipc().close(address_of(address))); });
}

std::uint32_t cudaIpcGetEventHandle(void* handle, void* event) {
  return runtime_call([&] {
    require(handle != nullptr);
    const IpcEventHandle made = ipc_handle_of(event);
    std::memcpy(handle, made.data(), made.size());
  });
}

std::uint32_t cudaIpcOpenEventHandle(void** event,
                                     warpserve::cuda_shim::abi::cudaIpcEventHandle_t handle) {
  return runtime_call([&] {
    require(event != nullptr);
    *event = open_event(std::bit_cast<IpcEventHandle>(handle));
  });
}
