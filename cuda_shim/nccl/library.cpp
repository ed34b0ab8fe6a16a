#include <array>

#include "cuda_shim/entry/handles.hpp"
#include "cuda_shim/nccl/call.hpp"
#include "cuda_shim/nccl/unique_id.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nccl;

namespace {

// The NCCL that torch 2.11 for CUDA 13 is built with.
constexpr std::int32_t kVersion = 22809;

constexpr std::array kErrorStrings = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};

}  // namespace

std::uint32_t ncclGetVersion(std::int32_t* version) {
  return nccl_call([&] { not_null(version, "version") = kVersion; });
}

const char* ncclGetErrorString(std::uint32_t result) {
  return result < kErrorStrings.size() ? kErrorStrings[result] : "unknown result code";
}

// Of the communicator, where it has failed, else of the thread.
const char* ncclGetLastError(void* comm) {
  const auto communicator = handles<Communicator>().find(comm);
  const char* const message = communicator == nullptr ? "" : communicator->message();
  return *message == '\0' ? last_error() : message;
}

std::uint32_t ncclGetUniqueId(void* id) {
  return nccl_call([&] {
    not_null(static_cast<std::byte*>(id), "uniqueId");
    // NCCL initialises CUDA here.
    Process::get();
    write_unique_id(id, new_unique_board()->address());
  });
}
