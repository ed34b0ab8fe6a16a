#include <memory>
#include <vector>

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
  return static_cast<int>(runtime_call([&] {
    require(duration_ns >= 0);
    return stream_of(stream)->enqueue(VirtualDuration::from_ns(duration_ns));
  }));
}

void ws_gpu_control_begin() {
  control_scopes.push_back(std::make_unique<ControlScope>());
}

void ws_gpu_control_end() {
  if (!control_scopes.empty()) control_scopes.pop_back();
}

int ws_gpu_mark_control(void* address) {
  return static_cast<int>(
      runtime_call([&] { expect(process_memory().mark_control(address_of(address))); }));
}
