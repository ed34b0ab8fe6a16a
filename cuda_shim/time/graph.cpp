#include "cuda_shim/time/graph.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace warpserve::gpu {
namespace {

bool has_duplicates(std::vector<NodeId> ids) {
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) != ids.end();
}

bool contains(const std::vector<NodeId>& ids, NodeId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool can_be_disabled(const Work& work) {
  return std::holds_alternative<KernelWork>(work) || std::holds_alternative<CopyWork>(work) ||
         std::holds_alternative<FillWork>(work);
}

// A node owns its child graph. False where that has a cycle.
bool adopt_child(Work& work) {
  auto* child = std::get_if<ChildGraphWork>(&work);
  if (child == nullptr) return true;
  if (!child->graph->topological_order()) return false;
  child->graph = std::make_shared<const Graph>(*child->graph);
  return true;
}

}  // namespace

Status Graph::add(Node node, NodeId& id) {
  const auto exists = [this](NodeId dependency) { return find(dependency) != nullptr; };
  if (!std::all_of(node.dependencies.begin(), node.dependencies.end(), exists) ||
      has_duplicates(node.dependencies) || !adopt_child(node.work)) {
    return Status::kInvalidValue;
  }
  id = node_limit();
  nodes_.emplace_back(std::move(node));
  return Status::kOk;
}

Status Graph::remove(NodeId id) {
  if (find(id) == nullptr) return Status::kInvalidValue;
  nodes_[id].reset();
  for (auto& node : nodes_) {
    if (node) std::erase(node->dependencies, id);
  }
  return Status::kOk;
}

Status Graph::add_dependency(NodeId from, NodeId to) {
  if (find(from) == nullptr || find(to) == nullptr || from == to ||
      contains(nodes_[to]->dependencies, from)) {
    return Status::kInvalidValue;
  }
  nodes_[to]->dependencies.push_back(from);
  return Status::kOk;
}

Status Graph::remove_dependency(NodeId from, NodeId to) {
  if (find(to) == nullptr || std::erase(nodes_[to]->dependencies, from) == 0) {
    return Status::kInvalidValue;
  }
  return Status::kOk;
}

Status Graph::set_work(NodeId id, Work work, Effect effect,
                       std::shared_ptr<const void> parameters) {
  if (find(id) == nullptr || nodes_[id]->work.index() != work.index() || !adopt_child(work)) {
    return Status::kInvalidValue;
  }
  nodes_[id]->work = std::move(work);
  nodes_[id]->effect = std::move(effect);
  nodes_[id]->parameters = std::move(parameters);
  return Status::kOk;
}

Status Graph::set_enabled(NodeId id, bool enabled) {
  if (find(id) == nullptr || !can_be_disabled(nodes_[id]->work)) return Status::kInvalidValue;
  nodes_[id]->enabled = enabled;
  return Status::kOk;
}

const Node* Graph::find(NodeId id) const {
  return id < nodes_.size() && nodes_[id] ? &*nodes_[id] : nullptr;
}

std::vector<NodeId> Graph::nodes() const {
  std::vector<NodeId> ids;
  for (NodeId id = 0; id < node_limit(); ++id) {
    if (nodes_[id]) ids.push_back(id);
  }
  return ids;
}

std::vector<NodeId> Graph::roots() const {
  std::vector<NodeId> ids = nodes();
  std::erase_if(ids, [this](NodeId id) { return !nodes_[id]->dependencies.empty(); });
  return ids;
}

std::vector<std::pair<NodeId, NodeId>> Graph::edges() const {
  std::vector<std::pair<NodeId, NodeId>> edges;
  for (const NodeId to : nodes()) {
    for (const NodeId from : nodes_[to]->dependencies) edges.emplace_back(from, to);
  }
  return edges;
}

std::vector<NodeId> Graph::dependents(NodeId id) const {
  std::vector<NodeId> ids = nodes();
  std::erase_if(ids, [&](NodeId other) { return !contains(nodes_[other]->dependencies, id); });
  return ids;
}

std::optional<std::vector<NodeId>> Graph::topological_order() const {
  std::vector<std::size_t> missing(nodes_.size());
  std::vector<std::vector<NodeId>> followers(nodes_.size());
  for (const auto& [from, to] : edges()) {
    ++missing[to];
    followers[from].push_back(to);
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const NodeId root : roots()) ready.push(root);
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (const NodeId follower : followers[id]) {
      if (--missing[follower] == 0) ready.push(follower);
    }
  }
  if (order.size() != nodes().size()) return std::nullopt;
  return order;
}

}  // namespace warpserve::gpu
