#include <bit>
#include <cstring>

#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

std::uint32_t open(std::uint64_t* address,
                   const warpserve::cuda_shim::abi::CUipcMemHandle& handle) {
  return driver_call([&] {
    require(address != nullptr);
    current_device();
    *address = value_of(process_memory().ipc().open(std::bit_cast<IpcHandle>(handle)));
  });
}

}  // namespace

std::uint32_t cuIpcGetMemHandle(void* handle, std::uint64_t address) {
  return driver_call([&] {
    require(handle != nullptr);
    const IpcHandle made = value_of(process_memory().ipc().get_handle(address));
    std::memcpy(handle, made.data(), made.size());
  });
}

std::uint32_t cuIpcOpenMemHandle(std::uint64_t* address,
                                 warpserve::cuda_shim::abi::CUipcMemHandle handle, std::uint32_t) {
  return open(address, handle);
}

std::uint32_t cuIpcOpenMemHandle_v2(std::uint64_t* address,
                                    warpserve::cuda_shim::abi::CUipcMemHandle handle,
                                    std::uint32_t) {
  return open(address, handle);
}

std::uint32_t cuIpcCloseMemHandle(std::uint64_t address) {
  return driver_call([&] { expect(process_memory().ipc().close(address)); });
}

std::uint32_t cuIpcGetEventHandle(void* handle, void* event) {
  return driver_call([&] {
    require(handle != nullptr);
    const IpcEventHandle made = ipc_handle_of(event);
    std::memcpy(handle, made.data(), made.size());
  });
}

std::uint32_t cuIpcOpenEventHandle(void** event,
                                   warpserve::cuda_shim::abi::CUipcEventHandle handle) {
  return driver_call([&] {
    require(event != nullptr);
    *event = open_event(std::bit_cast<IpcEventHandle>(handle));
  });
}
