// What streams and graphs are given to do, and what it takes.
#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "cuda_shim/time/completion.hpp"
#include "cuda_shim/time/copy_engine.hpp"
#include "cuda_shim/time/host_functions.hpp"

namespace warpserve::gpu {

class Event;
class Graph;

// Takes no time: a join of dependencies, or an allocation in stream order.
struct EmptyWork {};

struct KernelWork {
  VirtualDuration duration;
};

// A memset.
struct FillWork {
  VirtualDuration duration;
};

// Made by Context::copy_work.
struct CopyWork {
  std::shared_ptr<CopyEngine> engine;
  VirtualDuration duration;
};

// Of graphs only: memory that is allocated in stream order, which the graph keeps, or freed so.
struct MemoryWork {
  std::shared_ptr<void> memory;
  bool frees = false;
};

// Made by Context::host_work.
struct HostWork {
  std::shared_ptr<HostFunctions> runner;
  std::function<void()> function;
};

// Work whose end others decide: a collective. `start` is called once for each time that the work is
// enqueued or its graph launched, in the enqueuing thread, without locks; it has to see to it that
// `end` is resolved, which it may do before it returns. The work's own time is part of that.
struct PendingWork {
  std::function<void(const Completion& ready, CompletionSource end)> start;
};

// Of graphs only; in streams these are Stream::record, Stream::wait and GraphExec::launch.
struct EventRecordWork {
  std::shared_ptr<Event> event;
};
struct EventWaitWork {
  std::shared_ptr<Event> event;
};
struct ChildGraphWork {
  std::shared_ptr<const Graph> graph;
};

using Work = std::variant<EmptyWork, KernelWork, FillWork, CopyWork, HostWork, PendingWork,
                          EventRecordWork, EventWaitWork, ChildGraphWork, MemoryWork>;

// What the work does to control memory. Called in stream order: at once, in the enqueuing thread,
// unless the work waits for a pending end. Must not call streams, events or graphs, nor wait.
using Effect = std::function<void()>;

// What is left to do when the locks under which work was scheduled have been released.
class Afterwards {
 public:
  void add(std::function<void()> action) { actions_.push_back(std::move(action)); }
  void run() const {
    for (const auto& action : actions_) action();
  }

 private:
  std::vector<std::function<void()>> actions_;
};

// Begins work at `ready`, which is not before `now`, and says when it ends.
Completion schedule(const Work& work, const Effect& effect, const Completion& ready,
                    VirtualTime now, Afterwards& afterwards);

}  // namespace warpserve::gpu
