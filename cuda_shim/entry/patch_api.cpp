#include <memory>
#include <utility>
#include <vector>

#include "cuda_shim/entry/host_operators.hpp"
#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"

#pragma GCC visibility push(default)
#include "cuda_shim/warpserve_gpu.h"
#pragma GCC visibility pop

using namespace warpserve;
using namespace warpserve::gpu;

namespace {

thread_local std::vector<std::unique_ptr<ControlScope>> control_scopes;

}  // namespace

int ws_gpu_enqueue(void* stream, int64_t duration_ns) {
  return patch_call([&] {
    require(duration_ns >= 0);
    return stream_of(stream)->enqueue(VirtualDuration::from_ns(duration_ns));
  });
}

int ws_gpu_event_instant(void* event, int64_t* instant_ns) {
  return patch_call([&] {
    require(instant_ns != nullptr);
    VirtualTime instant;
    const Status status = event_of(event)->instant(instant);
    if (status == Status::kOk) *instant_ns = instant.ns();
    return status;
  });
}

void ws_gpu_control_begin() {
  control_scopes.push_back(std::make_unique<ControlScope>());
}

void ws_gpu_control_end() {
  if (!control_scopes.empty()) control_scopes.pop_back();
}

int ws_gpu_mark_control(void* address) {
  return patch_call([&] { expect(process_memory().mark_control(address_of(address))); });
}

int ws_gpu_is_control(const void* address, uint64_t bytes) {
  int control = 0;
  const Error error = guarded([&] {
    const Result<Contents> contents = process_memory().contents(address_of(address), bytes);
    control = contents.ok() && contents.value() == Contents::kReal;
  });
  return error == Error::kSuccess ? control : 0;
}

int ws_gpu_progress(void* stream) {
  ws_gpu_progress_state progress = WS_GPU_INVALID;
  const Error error = guarded([&] {
    const auto target = stream_of(stream);
    if (target->capture_info().state != CaptureState::kNone) {
      progress = WS_GPU_CAPTURING;
    } else {
      progress = target->tail().known() ? WS_GPU_UP_TO_DATE : WS_GPU_PENDING;
    }
  });
  return error == Error::kSuccess ? progress : WS_GPU_INVALID;
}

int ws_gpu_catch_up(void* stream) {
  return patch_call([&] { stream_of(stream)->tail().await_known(); });
}

int ws_gpu_enqueue_effect(void* stream, void (*run)(void*), void (*release)(void*), void* data) {
  const std::shared_ptr<void> owned(data, release);
  return patch_call(
      [&] { return stream_of(stream)->submit(KernelWork{}, [run, owned] { run(owned.get()); }); });
}

int ws_gpu_begin_anew() {
  return static_cast<int>(guarded([] { Process::begin_anew(); }));
}

void ws_gpu_announce_host_operators() {
  announce_host_operators();
}
