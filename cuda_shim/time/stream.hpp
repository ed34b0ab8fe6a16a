// CUDA streams: work in order.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "cuda_shim/time/capture.hpp"
#include "cuda_shim/time/completion.hpp"
#include "cuda_shim/time/event.hpp"
#include "cuda_shim/time/status.hpp"
#include "cuda_shim/time/work.hpp"

namespace warpserve::gpu {

class Context;

struct StreamOptions {
  bool blocking = true;  // joins with the legacy default stream
  int priority = 0;      // kept for who asks
};

// Whom a record or wait in a capture concerns.
enum class EventScope {
  kStream,    // the capture: forks and joins
  kExternal,  // everybody, at each launch: a node of the graph
};

// Any thread may call anything. A stream is gone when its last owner lets go; what it was given is
// done all the same.
class Stream {
 public:
  enum class Kind { kCreated, kLegacyDefault, kPerThreadDefault };

  // Made by Context.
  Stream(Context& context, Kind kind, StreamOptions options);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Context& context() const { return context_; }
  Kind kind() const { return kind_; }
  bool blocking() const { return options_.blocking; }
  int priority() const { return options_.priority; }
  std::uint64_t id() const { return id_; }

  // Work of that duration.
  Status enqueue(VirtualDuration duration) { return submit(KernelWork{duration}); }
  // Any work but that of graphs only.
  Status submit(Work work, Effect effect = {}, std::shared_ptr<const void> parameters = {});

  Status record(const std::shared_ptr<Event>& event, EventScope scope = EventScope::kStream);
  Status wait(const std::shared_ptr<Event>& event, EventScope scope = EventScope::kStream);
  // What comes next begins when that has ended, too.
  Status wait(const Completion& completion);

  // kNotReady where work is left.
  Status query();
  // Blocks the thread until all work so far is done.
  Status synchronize();
  // When all work so far is done.
  Completion tail() const;

  Status begin_capture(CaptureMode mode);
  // Adds to a graph that exists, after the given nodes of it.
  Status begin_capture_to(std::shared_ptr<Graph> graph, std::vector<NodeId> dependencies,
                          CaptureMode mode);
  Status end_capture(std::shared_ptr<Graph>& graph);
  CaptureInfo capture_info() const;
  Status change_capture_dependencies(const std::vector<NodeId>& nodes, DependencyChange change);

 private:
  friend class Context;
  friend class GraphExec;

  // `schedule(ready, now, afterwards)` says when the stream's next work ends, which may begin at
  // `ready`. It is called with the context's mutex held.
  template <class Schedule>
  Status append(const Schedule& schedule);

  // Null where the stream does not capture.
  std::shared_ptr<Capture> capture() const;
  Status wait_in_capture(const CapturePoint& point);
  Status check_can_ask();
  // Whether the legacy stream would join with a stream that captures.
  Status check_not_implicit() const;

  Context& context_;
  const Kind kind_;
  const StreamOptions options_;
  const std::uint64_t id_;
  // Guarded by the context's mutex.
  Completion tail_;
  std::shared_ptr<Capture> capture_;
};

}  // namespace warpserve::gpu
