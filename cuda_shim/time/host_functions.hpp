// Functions of the host that run in the order of a stream: cudaLaunchHostFunc,
// cudaStreamAddCallback and host nodes. One thread a context runs them one at a time, each at its
// instant.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "cuda_shim/device/session_clock.hpp"
#include "cuda_shim/time/completion.hpp"

namespace warpserve::gpu {

class HostFunctions {
 public:
  explicit HostFunctions(SessionClock& clock);
  // Waits for the function that runs; those that have not begun never will.
  ~HostFunctions();
  HostFunctions(const HostFunctions&) = delete;
  HostFunctions& operator=(const HostFunctions&) = delete;

  // Runs `function` at `instant` and resolves `end` when it has returned. Of several that are due,
  // the earliest runs first, then the one that was given first. The first call starts the thread.
  void run_at(VirtualTime instant, std::function<void()> function, CompletionSource end);

  // Does the calling thread run a host function? Those must not call CUDA.
  static bool running_in_this_thread();

 private:
  struct State;

  std::shared_ptr<State> state_;  // the thread's, too
  std::mutex start_mutex_;
  std::thread thread_;
};

}  // namespace warpserve::gpu
