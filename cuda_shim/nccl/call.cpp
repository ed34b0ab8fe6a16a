#include "cuda_shim/nccl/call.hpp"

#include <exception>

#include "cuda_shim/entry/call.hpp"
#include "cuda_shim/entry/handles.hpp"

namespace warpserve::gpu::nccl {
namespace {

thread_local std::string last_message;

std::uint32_t failed(Outcome result, const char* message) noexcept {
  try {
    last_message = message;
  } catch (const std::bad_alloc&) {
    last_message.clear();
  }
  // Being under way is no failure.
  if (result != Outcome::kInProgress) fail_group(result);
  return static_cast<std::uint32_t>(result);
}

}  // namespace

std::uint32_t code_of_current_exception() noexcept {
  try {
    throw;
  } catch (const NcclFailure& failure) {
    return failed(failure.result(), failure.what());
  } catch (const std::bad_alloc&) {
    return failed(Outcome::kSystemError, "the host has no memory left");
  } catch (...) {
    const Error error = error_of_current_exception();
    const ErrorText* const text = find_error_text(static_cast<std::uint32_t>(error));
    return failed(Outcome::kUnhandledCudaError,
                  text == nullptr ? "the virtual GPU can't go on" : text->text);
  }
}

const char* last_error() {
  return last_message.c_str();
}

std::shared_ptr<Communicator> communicator_of(const void* handle) {
  // Forked children have the handle, but not the threads behind it.
  Process::get();
  auto found = handles<Communicator>().find(handle);
  require(found != nullptr, Outcome::kInvalidArgument,
          "no such communicator: it is null, or was destroyed or aborted");
  return found;
}

DataType data_type_of(std::uint32_t number) {
  require(number < kDataTypes, Outcome::kInvalidArgument, "no such ncclDataType_t");
  return static_cast<DataType>(number);
}

}  // namespace warpserve::gpu::nccl
