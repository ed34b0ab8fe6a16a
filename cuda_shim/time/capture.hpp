// Stream capture: work that is given to a stream becomes a graph instead of being done.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_shim/time/event.hpp"
#include "cuda_shim/time/graph.hpp"
#include "cuda_shim/time/status.hpp"

namespace warpserve::gpu {

class Context;
class Stream;

enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

enum class CaptureState { kNone, kActive, kInvalidated };

// What a stream that captures is doing.
struct CaptureInfo {
  CaptureState state = CaptureState::kNone;
  std::uint64_t id = 0;
  std::shared_ptr<Graph> graph;      // under construction
  std::vector<NodeId> dependencies;  // of the stream's next node
};

enum class DependencyChange { kAdd, kSet };

// One capture, from begin to end, with all streams that have joined it.
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  // By the calling thread.
  static std::shared_ptr<Capture> begin(const Stream& origin, CaptureMode mode,
                                        std::shared_ptr<Graph> graph,
                                        std::vector<NodeId> dependencies);

  std::uint64_t id() const { return id_; }
  CaptureMode mode() const { return mode_; }
  bool began_in_this_thread() const { return thread_ == std::this_thread::get_id(); }
  // Not ended yet.
  bool is_ongoing() const;

  // The next node of a stream, which depends on the stream's last.
  Status add(const Stream& stream, Node node);
  // The stream joins the capture, or depends on more of it.
  Status join(const Stream& stream, const std::vector<NodeId>& nodes);
  Status change_dependencies(const Stream& stream, const std::vector<NodeId>& nodes,
                             DependencyChange change);
  CapturePoint point(const Stream& stream);
  CaptureInfo info(const Stream& stream) const;
  void invalidate();
  // A blocking or asking operation, which can't be captured: invalidates, and says what it got.
  Status refuse();
  // A stream goes away. What it has captured must still be joined; without its origin the capture
  // is over.
  void lose(const Stream& stream);

  // Ends it in any case but kCaptureUnmatched and kCaptureWrongThread. `graph` is null on errors.
  Status end(const Stream& stream, std::shared_ptr<Graph>& graph);

  // Has a stream of the context, a blocking one if so asked, joined it?
  bool concerns(const Context& context, bool blocking_only) const;

 private:
  Capture(const Stream& origin, CaptureMode mode, std::shared_ptr<Graph> graph,
          std::vector<NodeId> dependencies);
  // With mutex_ held:
  Status status() const;
  bool all_streams_joined() const;

  const Stream* const origin_;
  const CaptureMode mode_;
  const std::uint64_t id_;
  const std::thread::id thread_;
  mutable std::mutex mutex_;
  bool ended_ = false;
  bool valid_ = true;
  std::shared_ptr<Graph> graph_;
  std::map<const Stream*, std::vector<NodeId>> tails_;
  std::vector<NodeId> lost_tails_;  // of streams that are gone
};

// Whether someone captures in streams of the context (the blocking ones, if so asked). Those
// captures are invalidated.
bool invalidate_captures(const Context& context, bool blocking_only);

// Sets the thread's mode (kGlobal at first) and returns the one before.
CaptureMode exchange_thread_capture_mode(CaptureMode mode);

// To be called by operations that are unsafe while someone captures (allocations, event queries …):
// kCaptureUnsupported where the thread's mode forbids them now. The captures in the way are
// invalidated.
Status check_unsafe_call();

}  // namespace warpserve::gpu
