#include "cuda_shim/time/stream.hpp"

#include <atomic>
#include <utility>

#include "cuda_shim/time/context.hpp"
#include "cuda_shim/time/stream_append.hpp"

namespace warpserve::gpu {
namespace {

std::atomic<std::uint64_t> next_stream_id{1};

bool is_negative(const Work& work) {
  constexpr VirtualDuration kZero;
  return std::visit(
      [&](const auto& kind) {
        if constexpr (requires { kind.duration; }) return kind.duration < kZero;
        return false;
      },
      work);
}

bool is_for_graphs_only(const Work& work) {
  return std::holds_alternative<EventRecordWork>(work) ||
         std::holds_alternative<EventWaitWork>(work) ||
         std::holds_alternative<ChildGraphWork>(work);
}

}  // namespace

Stream::Stream(Context& context, Kind kind, StreamOptions options)
    : context_(context), kind_(kind), options_(options), id_(next_stream_id.fetch_add(1)) {
  context_.add(*this);
}

Stream::~Stream() {
  if (const auto capturing = capture()) capturing->lose(*this);
  context_.remove(*this);
}

Status Stream::submit(Work work, Effect effect, std::shared_ptr<const void> parameters) {
  if (is_negative(work) || is_for_graphs_only(work)) return Status::kInvalidValue;
  if (const auto capturing = capture()) {
    return capturing->add(*this, Node{.work = std::move(work),
                                      .effect = std::move(effect),
                                      .parameters = std::move(parameters)});
  }
  return append([&](const Completion& ready, VirtualTime now, Afterwards& afterwards) {
    return schedule(work, effect, ready, now, afterwards);
  });
}

Status Stream::record(const std::shared_ptr<Event>& event, EventScope scope) {
  if (const auto capturing = capture()) {
    if (scope == EventScope::kExternal) {
      return capturing->add(*this, Node{.work = EventRecordWork{event}});
    }
    event->set(capturing->point(*this));
    return Status::kOk;
  }
  if (scope == EventScope::kExternal) return Status::kInvalidValue;
  return append([&](const Completion& ready, VirtualTime, Afterwards&) {
    event->set(ready);
    return ready;
  });
}

Status Stream::wait(const std::shared_ptr<Event>& event, EventScope scope) {
  const auto capturing = capture();
  if (scope == EventScope::kExternal) {
    if (capturing == nullptr) return Status::kInvalidValue;
    return capturing->add(*this, Node{.work = EventWaitWork{event}});
  }
  const auto point = event->capture_point();
  return point ? wait_in_capture(*point) : wait(event->completion());
}

Status Stream::wait_in_capture(const CapturePoint& point) {
  if (!point.capture->is_ongoing()) return Status::kCapturedEvent;
  const auto capturing = capture();
  if (capturing != nullptr && capturing != point.capture) {
    capturing->invalidate();
    point.capture->invalidate();
    return Status::kCaptureMerge;
  }
  if (kind_ == Kind::kLegacyDefault) {
    point.capture->invalidate();
    return Status::kCaptureImplicit;
  }
  const Status joined = point.capture->join(*this, point.nodes);
  if (joined == Status::kOk) {
    const std::lock_guard lock(context_.mutex_);
    capture_ = point.capture;
  }
  return joined;
}

Status Stream::wait(const Completion& completion) {
  if (const auto capturing = capture()) {
    // What was complete before all captures is no dependency.
    if (completion.reached(VirtualTime())) return Status::kOk;
    capturing->invalidate();
    return Status::kCaptureIsolation;
  }
  return append(
      [&](const Completion& ready, VirtualTime, Afterwards&) { return latest(ready, completion); });
}

Status Stream::query() {
  if (const Status status = check_can_ask(); status != Status::kOk) return status;
  SessionClock& clock = context_.clock();
  if (tail().reached(clock.now())) return Status::kOk;
  clock.note_idle_poll();
  return Status::kNotReady;
}

Status Stream::synchronize() {
  if (const Status status = check_can_ask(); status != Status::kOk) return status;
  tail().await_reached(context_.clock());
  return Status::kOk;
}

Completion Stream::tail() const {
  const std::lock_guard lock(context_.mutex_);
  return context_.ready(*this);
}

Status Stream::begin_capture(CaptureMode mode) {
  return begin_capture_to(std::make_shared<Graph>(), {}, mode);
}

Status Stream::begin_capture_to(std::shared_ptr<Graph> graph, std::vector<NodeId> dependencies,
                                CaptureMode mode) {
  if (HostFunctions::running_in_this_thread()) return Status::kNotPermitted;
  if (kind_ == Kind::kLegacyDefault) return Status::kCaptureUnsupported;
  for (const NodeId id : dependencies) {
    if (graph->find(id) == nullptr) return Status::kInvalidValue;
  }
  const std::lock_guard lock(context_.mutex_);
  if (capture_ != nullptr && capture_->is_ongoing()) return Status::kIllegalState;
  capture_ = Capture::begin(*this, mode, std::move(graph), std::move(dependencies));
  return Status::kOk;
}

Status Stream::end_capture(std::shared_ptr<Graph>& graph) {
  graph.reset();
  const auto capturing = capture();
  return capturing == nullptr ? Status::kIllegalState : capturing->end(*this, graph);
}

CaptureInfo Stream::capture_info() const {
  const auto capturing = capture();
  return capturing == nullptr ? CaptureInfo() : capturing->info(*this);
}

Status Stream::change_capture_dependencies(const std::vector<NodeId>& nodes,
                                           DependencyChange change) {
  const auto capturing = capture();
  return capturing == nullptr ? Status::kIllegalState
                              : capturing->change_dependencies(*this, nodes, change);
}

std::shared_ptr<Capture> Stream::capture() const {
  const std::lock_guard lock(context_.mutex_);
  return capture_ != nullptr && capture_->is_ongoing() ? capture_ : nullptr;
}

Status Stream::check_can_ask() {
  if (HostFunctions::running_in_this_thread()) return Status::kNotPermitted;
  if (const auto capturing = capture()) return capturing->refuse();
  return check_not_implicit();
}

Status Stream::check_not_implicit() const {
  if (kind_ != Kind::kLegacyDefault) return Status::kOk;
  return invalidate_captures(context_, true) ? Status::kCaptureImplicit : Status::kOk;
}

}  // namespace warpserve::gpu
