// CUDA graphs: work and its dependencies, and what a launch of them takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cuda_shim/time/status.hpp"
#include "cuda_shim/time/work.hpp"

namespace warpserve::gpu {

class Stream;

// Numbers the nodes of a graph in order of their creation; kept by clones and executable graphs.
using NodeId = std::uint32_t;

struct Node {
  Work work;
  Effect effect;
  // The parameters with which the entry points made it, for those who ask for them.
  std::shared_ptr<const void> parameters;
  std::vector<NodeId> dependencies;
  // Of executable graphs: false where it does nothing and takes no time.
  bool enabled = true;
};

// A description: nothing runs. As in CUDA, not for several threads at once; copies are clones.
class Graph {
 public:
  // kInvalidValue where a dependency is no node or named twice. A child graph is cloned.
  Status add(Node node, NodeId& id);
  Status remove(NodeId id);
  // kInvalidValue where the edge exists (or, for remove, does not), or a node does not.
  Status add_dependency(NodeId from, NodeId to);
  Status remove_dependency(NodeId from, NodeId to);
  // Another work of the same kind. kInvalidValue for another kind.
  Status set_work(NodeId id, Work work, Effect effect, std::shared_ptr<const void> parameters);

  // kInvalidValue where it is not a kernel, a copy or a fill.
  Status set_enabled(NodeId id, bool enabled);

  // Null where there is no such node.
  const Node* find(NodeId id) const;
  std::vector<NodeId> nodes() const;
  std::vector<NodeId> roots() const;
  std::vector<std::pair<NodeId, NodeId>> edges() const;  // from, to
  std::vector<NodeId> dependents(NodeId id) const;

  // One more than the largest number of a node so far.
  NodeId node_limit() const { return static_cast<NodeId>(nodes_.size()); }
  // Each node after those it depends on, else in order of creation. Nothing where there is a cycle.
  std::optional<std::vector<NodeId>> topological_order() const;

 private:
  std::vector<std::optional<Node>> nodes_;  // empty: removed
};

// A graph made ready to be launched: a snapshot.
class GraphExec {
 public:
  // Null where the graph has a cycle.
  static std::unique_ptr<GraphExec> instantiate(const Graph& graph);
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  // In stream order, and after its own earlier launches. The nodes begin `launch_duration` after
  // the stream has got there. In a capturing stream it becomes a child graph.
  Status launch(Stream& stream, VirtualDuration launch_duration = {});

  // Takes over works and effects of a graph of the same topology and kinds; else
  // kGraphUpdateFailure, and `mismatch` is the first node that differs, if it is a node.
  Status update(const Graph& graph, std::optional<NodeId>& mismatch);
  Status set_work(NodeId id, Work work, Effect effect, std::shared_ptr<const void> parameters);
  Status set_enabled(NodeId id, bool enabled);
  Status is_enabled(NodeId id, bool& enabled) const;

 private:
  GraphExec(Graph graph, std::vector<NodeId> order);
  // With mutex_ held:
  Completion schedule_launch(const Completion& ready, VirtualTime now, Afterwards& afterwards);
  void measure();

  mutable std::mutex mutex_;
  Graph graph_;
  const std::vector<NodeId> order_;
  // Where each launch takes the same and does nothing else: the length of the critical path.
  std::optional<VirtualDuration> fixed_duration_;
  Completion last_end_;
};

// Begins all nodes of a graph, in the given topological order, none before `ready`, and says when
// the last of them ends.
Completion schedule_graph(const Graph& graph, const std::vector<NodeId>& order,
                          const Completion& ready, VirtualTime now, Afterwards& afterwards);

}  // namespace warpserve::gpu
