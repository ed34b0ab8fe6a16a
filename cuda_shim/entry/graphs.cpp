#include "cuda_shim/entry/graphs.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "cuda_shim/entry/handles.hpp"

namespace warpserve::gpu {
namespace {

constexpr std::uint32_t kUpdateSuccess = 0;
constexpr std::uint32_t kUpdateTopologyChanged = 2;

// Finds the handle of a node that has one already.
struct NodeIndex {
  std::mutex mutex;
  std::map<std::pair<const Graph*, NodeId>, void*> handles;
};

NodeIndex& node_index() {
  static auto& index = *std::make_unique<NodeIndex>().release();
  return index;
}

template <class Object>
std::shared_ptr<Object> find(void* handle) {
  auto object = handles<Object>().find(handle);
  require(object != nullptr);
  return object;
}

Status change_dependencies(Status (Graph::*change)(NodeId, NodeId), void* graph, void* const* from,
                           void* const* to, std::uint64_t count) {
  const auto owner = graph_of(graph);
  const auto starts = nodes_of(owner, from, count);
  const auto ends = nodes_of(owner, to, count);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const Status status = (*owner.*change)(starts[i], ends[i]);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

}  // namespace

std::shared_ptr<Graph> graph_of(void* handle) {
  return find<Graph>(handle);
}
GraphNode node_of(void* handle) {
  return *find<GraphNode>(handle);
}
LivingNode living_node_of(void* handle) {
  const GraphNode node = node_of(handle);
  const LivingNode living{node.graph.lock(), node.id};
  require(living.graph != nullptr && living.graph->find(living.id) != nullptr);
  return living;
}

std::shared_ptr<GraphExec> executable_of(void* handle) {
  return find<GraphExec>(handle);
}

void* graph_handle(const std::shared_ptr<Graph>& graph) {
  return handles<Graph>().add(graph);
}

void destroy_graph(void* handle) {
  require(handles<Graph>().remove(handle) != nullptr);
  NodeIndex& index = node_index();
  const std::lock_guard lock(index.mutex);
  const auto* const graph = static_cast<const Graph*>(handle);
  auto it = index.handles.lower_bound({graph, 0});
  while (it != index.handles.end() && it->first.first == graph) {
    handles<GraphNode>().remove(it->second);
    it = index.handles.erase(it);
  }
}

void* node_handle(const std::shared_ptr<Graph>& graph, NodeId id) {
  NodeIndex& index = node_index();
  const std::lock_guard lock(index.mutex);
  void*& handle = index.handles[{graph.get(), id}];
  if (handle == nullptr) {
    handle = handles<GraphNode>().add(std::make_shared<GraphNode>(GraphNode{graph, id}));
  }
  return handle;
}

std::vector<NodeId> nodes_of(const std::shared_ptr<Graph>& graph, void* const* handles,
                             std::uint64_t count) {
  require(handles != nullptr || count == 0);
  std::vector<NodeId> nodes;
  for (std::uint64_t i = 0; i < count; ++i) {
    const GraphNode node = node_of(handles[i]);
    require(node.graph.lock() == graph);
    nodes.push_back(node.id);
  }
  return nodes;
}

Status add_dependencies(void* graph, void* const* from, void* const* to, std::uint64_t count) {
  return change_dependencies(&Graph::add_dependency, graph, from, to, count);
}

Status remove_dependencies(void* graph, void* const* from, void* const* to, std::uint64_t count) {
  return change_dependencies(&Graph::remove_dependency, graph, from, to, count);
}

void* instantiate(const Graph& graph) {
  std::shared_ptr<GraphExec> executable = GraphExec::instantiate(graph);
  require(executable != nullptr);
  return handles<GraphExec>().add(std::move(executable));
}

void destroy_executable(void* handle) {
  require(handles<GraphExec>().remove(handle) != nullptr);
}

Status add_node(void** handle, void* graph, void* const* dependencies, std::uint64_t count,
                Work work, Effect effect) {
  require(handle != nullptr);
  const auto owner = graph_of(graph);
  NodeId id = 0;
  const Status status = owner->add({.work = std::move(work),
                                    .effect = std::move(effect),
                                    .dependencies = nodes_of(owner, dependencies, count)},
                                   id);
  if (status == Status::kOk) *handle = node_handle(owner, id);
  return status;
}

std::uint32_t node_type(const Work& work) {
  struct Number {
    std::uint32_t operator()(const KernelWork&) const { return 0; }
    std::uint32_t operator()(const CopyWork&) const { return 1; }
    std::uint32_t operator()(const FillWork&) const { return 2; }
    std::uint32_t operator()(const HostWork&) const { return 3; }
    std::uint32_t operator()(const ChildGraphWork&) const { return 4; }
    std::uint32_t operator()(const EmptyWork&) const { return 5; }
    std::uint32_t operator()(const EventWaitWork&) const { return 6; }
    std::uint32_t operator()(const EventRecordWork&) const { return 7; }
    std::uint32_t operator()(const MemoryWork& work) const { return work.frees ? 11 : 10; }
    // A collective: kernels, to who asks.
    std::uint32_t operator()(const PendingWork&) const { return 0; }
  };
  return std::visit(Number(), work);
}

void list_nodes(const std::shared_ptr<Graph>& graph, const std::vector<NodeId>& nodes,
                void** handles, std::uint64_t* count) {
  require(count != nullptr);
  if (handles == nullptr) {
    *count = nodes.size();
    return;
  }
  const std::uint64_t wanted = *count;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    handles[i] = i < nodes.size() ? node_handle(graph, nodes[i]) : nullptr;
  }
  *count = std::min<std::uint64_t>(wanted, nodes.size());
}

void list_edges(const std::shared_ptr<Graph>& graph, void** from, void** to, std::uint64_t* count) {
  std::vector<NodeId> starts;
  std::vector<NodeId> ends;
  for (const auto& [start, end] : graph->edges()) {
    starts.push_back(start);
    ends.push_back(end);
  }
  require(count != nullptr && (from == nullptr) == (to == nullptr));
  std::uint64_t room = *count;
  list_nodes(graph, starts, from, &room);
  list_nodes(graph, ends, to, count);
}

void tell_capture_info(const Stream& stream, const CaptureAnswers& answers) {
  require(answers.status != nullptr);
  const CaptureInfo info = stream.capture_info();
  *answers.status = static_cast<std::uint32_t>(info.state);
  if (info.state != CaptureState::kActive) return;
  if (answers.id != nullptr) *answers.id = info.id;
  if (answers.graph != nullptr) *answers.graph = graph_handle(info.graph);
  if (answers.edges != nullptr) *answers.edges = nullptr;
  if (answers.dependency_count != nullptr) *answers.dependency_count = info.dependencies.size();
  if (answers.dependencies != nullptr) {
    thread_local std::vector<void*> told;
    told.clear();
    for (const NodeId id : info.dependencies) told.push_back(node_handle(info.graph, id));
    *answers.dependencies = told.data();
  }
}

CaptureMode capture_mode_of(std::uint32_t mode) {
  require(mode <= static_cast<std::uint32_t>(CaptureMode::kRelaxed));
  return static_cast<CaptureMode>(mode);
}

Status begin_capture(Stream& stream, std::uint32_t mode) {
  return stream.begin_capture(capture_mode_of(mode));
}

Status end_capture(Stream& stream, void** graph) {
  require(graph != nullptr);
  std::shared_ptr<Graph> captured;
  const Status status = stream.end_capture(captured);
  *graph = captured == nullptr ? nullptr : graph_handle(captured);
  return status;
}

Status begin_capture_to(Stream& stream, void* graph, void* const* dependencies, std::uint64_t count,
                        std::uint32_t mode) {
  const auto target = graph_of(graph);
  return stream.begin_capture_to(target, nodes_of(target, dependencies, count),
                                 capture_mode_of(mode));
}

Status change_capture_dependencies(Stream& stream, void* const* dependencies, std::uint64_t count,
                                   std::uint32_t flags) {
  require(flags <= 1);
  const auto change = flags == 0 ? DependencyChange::kAdd : DependencyChange::kSet;
  const CaptureInfo info = stream.capture_info();
  require(info.state == CaptureState::kActive, Error::kIllegalState);
  return stream.change_capture_dependencies(nodes_of(info.graph, dependencies, count), change);
}

void exchange_capture_mode(std::uint32_t* mode) {
  require(mode != nullptr);
  *mode = static_cast<std::uint32_t>(exchange_thread_capture_mode(capture_mode_of(*mode)));
}

Status update_executable(void* executable, void* graph, UpdateResult& result) {
  const auto target = executable_of(executable);
  const auto source = graph_of(graph);
  std::optional<NodeId> mismatch;
  const Status status = target->update(*source, mismatch);
  result = {status == Status::kOk ? kUpdateSuccess : kUpdateTopologyChanged,
            mismatch ? node_handle(source, *mismatch) : nullptr, nullptr};
  return status;
}

}  // namespace warpserve::gpu
