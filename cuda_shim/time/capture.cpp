#include "cuda_shim/time/capture.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "cuda_shim/time/context.hpp"
#include "cuda_shim/time/stream.hpp"

namespace warpserve::gpu {
namespace {

std::atomic<std::uint64_t> next_capture_id{1};
thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

// All captures of the process that have not ended.
class Ongoing {
 public:
  void add(std::shared_ptr<Capture> capture) {
    const std::lock_guard lock(mutex_);
    captures_.push_back(std::move(capture));
    count_.store(captures_.size());
  }

  void remove(const Capture& capture) {
    const std::lock_guard lock(mutex_);
    std::erase_if(captures_, [&](const auto& other) { return other.get() == &capture; });
    count_.store(captures_.size());
  }

  std::vector<std::shared_ptr<Capture>> all() {
    if (count_.load() == 0) return {};
    const std::lock_guard lock(mutex_);
    return captures_;
  }

 private:
  std::atomic<std::size_t> count_{0};  // so that who does not capture takes no lock
  std::mutex mutex_;
  std::vector<std::shared_ptr<Capture>> captures_;
};

Ongoing& ongoing() {
  // Never destroyed: threads may use streams while the process exits.
  static auto& captures = *new Ongoing;
  return captures;
}

// The nodes and all that they depend on, directly or not.
std::set<NodeId> with_ancestors(const Graph& graph, std::vector<NodeId> nodes) {
  std::set<NodeId> seen;
  while (!nodes.empty()) {
    const NodeId id = nodes.back();
    nodes.pop_back();
    const Node* node = graph.find(id);
    if (node == nullptr || !seen.insert(id).second) continue;
    nodes.insert(nodes.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

void add_to(std::vector<NodeId>& set, const std::vector<NodeId>& nodes) {
  set.insert(set.end(), nodes.begin(), nodes.end());
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
}

// Does the capture forbid unsafe calls to this thread?
bool is_in_the_way(const Capture& capture) {
  if (thread_mode == CaptureMode::kRelaxed) return false;
  if (capture.began_in_this_thread()) return capture.mode() != CaptureMode::kRelaxed;
  return thread_mode == CaptureMode::kGlobal && capture.mode() == CaptureMode::kGlobal;
}

}  // namespace

Capture::Capture(const Stream& origin, CaptureMode mode, std::shared_ptr<Graph> graph,
                 std::vector<NodeId> dependencies)
    : origin_(&origin),
      mode_(mode),
      id_(next_capture_id.fetch_add(1)),
      thread_(std::this_thread::get_id()),
      graph_(std::move(graph)) {
  tails_[origin_] = std::move(dependencies);
}

std::shared_ptr<Capture> Capture::begin(const Stream& origin, CaptureMode mode,
                                        std::shared_ptr<Graph> graph,
                                        std::vector<NodeId> dependencies) {
  std::shared_ptr<Capture> capture(
      new Capture(origin, mode, std::move(graph), std::move(dependencies)));
  ongoing().add(capture);
  return capture;
}

bool Capture::is_ongoing() const {
  const std::lock_guard lock(mutex_);
  return !ended_;
}

Status Capture::status() const {
  return valid_ && !ended_ ? Status::kOk : Status::kCaptureInvalidated;
}

Status Capture::add(const Stream& stream, Node node) {
  const std::lock_guard lock(mutex_);
  if (status() != Status::kOk) return status();
  node.dependencies = tails_[&stream];
  NodeId id = 0;
  const Status added = graph_->add(std::move(node), id);
  if (added == Status::kOk) tails_[&stream] = {id};
  return added;
}

Status Capture::join(const Stream& stream, const std::vector<NodeId>& nodes) {
  const std::lock_guard lock(mutex_);
  if (status() != Status::kOk) return status();
  add_to(tails_[&stream], nodes);
  return Status::kOk;
}

Status Capture::change_dependencies(const Stream& stream, const std::vector<NodeId>& nodes,
                                    DependencyChange change) {
  const std::lock_guard lock(mutex_);
  if (status() != Status::kOk) return status();
  const auto exists = [this](NodeId id) { return graph_->find(id) != nullptr; };
  if (!std::all_of(nodes.begin(), nodes.end(), exists)) return Status::kInvalidValue;
  if (change == DependencyChange::kSet) tails_[&stream].clear();
  add_to(tails_[&stream], nodes);
  return Status::kOk;
}

CapturePoint Capture::point(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  return {shared_from_this(), tails_[&stream]};
}

CaptureInfo Capture::info(const Stream& stream) const {
  const std::lock_guard lock(mutex_);
  const auto tail = tails_.find(&stream);
  return {.state = valid_ ? CaptureState::kActive : CaptureState::kInvalidated,
          .id = id_,
          .graph = graph_,
          .dependencies = tail == tails_.end() ? std::vector<NodeId>() : tail->second};
}

void Capture::invalidate() {
  const std::lock_guard lock(mutex_);
  valid_ = false;
}

Status Capture::refuse() {
  const std::lock_guard lock(mutex_);
  return std::exchange(valid_, false) ? Status::kCaptureUnsupported : Status::kCaptureInvalidated;
}

void Capture::lose(const Stream& stream) {
  {
    const std::lock_guard lock(mutex_);
    const auto tail = tails_.extract(&stream);
    if (!tail.empty()) add_to(lost_tails_, tail.mapped());
    if (&stream != origin_) return;
    ended_ = true;
  }
  ongoing().remove(*this);
}

Status Capture::end(const Stream& stream, std::shared_ptr<Graph>& graph) {
  Status result = Status::kOk;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || &stream != origin_) return Status::kCaptureUnmatched;
    if (mode_ != CaptureMode::kRelaxed && !began_in_this_thread()) {
      return Status::kCaptureWrongThread;
    }
    ended_ = true;
    if (!valid_) {
      result = Status::kCaptureInvalidated;
    } else if (!all_streams_joined()) {
      result = Status::kCaptureUnjoined;
    }
    graph = result == Status::kOk ? std::move(graph_) : nullptr;
    graph_.reset();
  }
  ongoing().remove(*this);
  return result;
}

bool Capture::all_streams_joined() const {
  const std::set<NodeId> joined = with_ancestors(*graph_, tails_.at(origin_));
  const auto are_joined = [&](const std::vector<NodeId>& nodes) {
    return std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) { return joined.contains(id); });
  };
  return are_joined(lost_tails_) &&
         std::all_of(tails_.begin(), tails_.end(),
                     [&](const auto& tail) { return are_joined(tail.second); });
}

bool Capture::concerns(const Context& context, bool blocking_only) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(tails_.begin(), tails_.end(), [&](const auto& tail) {
    return &tail.first->context() == &context && (tail.first->blocking() || !blocking_only);
  });
}

bool invalidate_captures(const Context& context, bool blocking_only) {
  bool any = false;
  for (const auto& capture : ongoing().all()) {
    if (!capture->concerns(context, blocking_only)) continue;
    capture->invalidate();
    any = true;
  }
  return any;
}

CaptureMode exchange_thread_capture_mode(CaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

Status check_unsafe_call() {
  bool forbidden = false;
  for (const auto& capture : ongoing().all()) {
    if (!is_in_the_way(*capture)) continue;
    capture->invalidate();
    forbidden = true;
  }
  return forbidden ? Status::kCaptureUnsupported : Status::kOk;
}

}  // namespace warpserve::gpu
