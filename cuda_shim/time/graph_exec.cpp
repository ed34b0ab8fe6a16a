#include <algorithm>

#include "cuda_shim/time/graph.hpp"
#include "cuda_shim/time/stream.hpp"
#include "cuda_shim/time/stream_append.hpp"

namespace warpserve::gpu {
namespace {

template <class T>
bool is(const Work& work) {
  return std::holds_alternative<T>(work);
}

// Takes the same time whenever it begins, and does nothing but that.
bool is_fixed(const Node& node) {
  if (node.effect) return false;
  if (const auto* child = std::get_if<ChildGraphWork>(&node.work)) {
    const std::vector<NodeId> nodes = child->graph->nodes();
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](NodeId id) { return is_fixed(*child->graph->find(id)); });
  }
  return is<EmptyWork>(node.work) || is<MemoryWork>(node.work) || is<KernelWork>(node.work) ||
         is<FillWork>(node.work);
}

// The places of a node's dependencies among all nodes, in order.
std::vector<std::size_t> dependency_places(const Graph& graph, const std::vector<NodeId>& nodes,
                                           NodeId id) {
  std::vector<std::size_t> places;
  for (const NodeId dependency : graph.find(id)->dependencies) {
    const auto place = std::lower_bound(nodes.begin(), nodes.end(), dependency);
    places.push_back(static_cast<std::size_t>(place - nodes.begin()));
  }
  std::sort(places.begin(), places.end());
  return places;
}

bool have_same_shape(const Graph& a, const Graph& b, std::optional<NodeId>& mismatch_in_b);

bool are_of_one_kind(const Work& a, const Work& b) {
  if (a.index() != b.index()) return false;
  if (!is<ChildGraphWork>(a)) return true;
  std::optional<NodeId> mismatch;
  return have_same_shape(*std::get<ChildGraphWork>(a).graph, *std::get<ChildGraphWork>(b).graph,
                         mismatch);
}

bool have_same_shape(const Graph& a, const Graph& b, std::optional<NodeId>& mismatch_in_b) {
  const std::vector<NodeId> a_nodes = a.nodes();
  const std::vector<NodeId> b_nodes = b.nodes();
  if (a_nodes.size() != b_nodes.size()) return false;
  for (std::size_t i = 0; i < a_nodes.size(); ++i) {
    if (!are_of_one_kind(a.find(a_nodes[i])->work, b.find(b_nodes[i])->work) ||
        dependency_places(a, a_nodes, a_nodes[i]) != dependency_places(b, b_nodes, b_nodes[i])) {
      mismatch_in_b = b_nodes[i];
      return false;
    }
  }
  return true;
}

}  // namespace

Completion schedule_graph(const Graph& graph, const std::vector<NodeId>& order,
                          const Completion& ready, VirtualTime now, Afterwards& afterwards) {
  std::vector<Completion> ends(graph.node_limit());
  std::vector<bool> is_leaf(graph.node_limit(), true);
  for (const NodeId id : order) {
    const Node& node = *graph.find(id);
    Completion begin = ready;
    for (const NodeId dependency : node.dependencies) {
      begin = latest(begin, ends[dependency]);
      is_leaf[dependency] = false;
    }
    ends[id] = node.enabled ? schedule(node.work, node.effect, begin, now, afterwards) : begin;
  }
  Completion end = ready;
  for (const NodeId id : order) {
    if (is_leaf[id]) end = latest(end, ends[id]);
  }
  return end;
}

std::unique_ptr<GraphExec> GraphExec::instantiate(const Graph& graph) {
  std::optional<std::vector<NodeId>> order = graph.topological_order();
  if (!order) return nullptr;
  return std::unique_ptr<GraphExec>(new GraphExec(graph, std::move(*order)));
}

GraphExec::GraphExec(Graph graph, std::vector<NodeId> order)
    : graph_(std::move(graph)), order_(std::move(order)) {
  measure();
}

void GraphExec::measure() {
  fixed_duration_.reset();
  const auto fixed = [this](NodeId id) { return is_fixed(*graph_.find(id)); };
  if (!std::all_of(order_.begin(), order_.end(), fixed)) return;
  Afterwards nothing;
  const Completion end = schedule_graph(graph_, order_, Completion(), VirtualTime(), nothing);
  fixed_duration_ = *end.instant() - VirtualTime();
}

Completion GraphExec::schedule_launch(const Completion& ready, VirtualTime now,
                                      Afterwards& afterwards) {
  if (fixed_duration_) return ready.after(*fixed_duration_);
  return schedule_graph(graph_, order_, ready, now, afterwards);
}

Status GraphExec::launch(Stream& stream, VirtualDuration launch_duration) {
  if (launch_duration < VirtualDuration()) return Status::kInvalidValue;
  const auto clone = [this] {
    const std::lock_guard lock(mutex_);
    return std::make_shared<const Graph>(graph_);
  };
  if (const auto capture = stream.capture()) {
    return capture->add(stream, Node{.work = ChildGraphWork{clone()}});
  }
  return stream.append([&](const Completion& ready, VirtualTime now, Afterwards& afterwards) {
    const std::lock_guard lock(mutex_);
    const Completion begin = latest(ready, last_end_).after(launch_duration);
    last_end_ = schedule_launch(begin, now, afterwards);
    return last_end_;
  });
}

Status GraphExec::update(const Graph& graph, std::optional<NodeId>& mismatch) {
  const std::lock_guard lock(mutex_);
  mismatch.reset();
  if (!have_same_shape(graph_, graph, mismatch)) return Status::kGraphUpdateFailure;
  const std::vector<NodeId> from = graph.nodes();
  const std::vector<NodeId> to = graph_.nodes();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Node& node = *graph.find(from[i]);
    const Status status = graph_.set_work(to[i], node.work, node.effect, node.parameters);
    if (status != Status::kOk) return status;
  }
  measure();
  return Status::kOk;
}

Status GraphExec::set_work(NodeId id, Work work, Effect effect,
                           std::shared_ptr<const void> parameters) {
  const std::lock_guard lock(mutex_);
  const Node* node = graph_.find(id);
  if (node == nullptr || !are_of_one_kind(node->work, work)) return Status::kInvalidValue;
  const Status status =
      graph_.set_work(id, std::move(work), std::move(effect), std::move(parameters));
  measure();
  return status;
}

Status GraphExec::set_enabled(NodeId id, bool enabled) {
  const std::lock_guard lock(mutex_);
  const Status status = graph_.set_enabled(id, enabled);
  measure();
  return status;
}

Status GraphExec::is_enabled(NodeId id, bool& enabled) const {
  const std::lock_guard lock(mutex_);
  const Node* node = graph_.find(id);
  if (node == nullptr) return Status::kInvalidValue;
  enabled = node->enabled;
  return Status::kOk;
}

}  // namespace warpserve::gpu
