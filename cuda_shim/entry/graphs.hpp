// Graph, node and executable handles.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_shim/entry/error.hpp"
#include "cuda_shim/time/capture.hpp"
#include "cuda_shim/time/graph.hpp"
#include "cuda_shim/time/stream.hpp"

namespace warpserve::gpu {

// What a node handle stands for: the same handle each time that one asks for the same node.
struct GraphNode {
  std::weak_ptr<Graph> graph;
  NodeId id;
};

// These throw Failure(kInvalidValue) where the handle is none.
std::shared_ptr<Graph> graph_of(void* handle);
GraphNode node_of(void* handle);
// The node in its graph, where both still are.
struct LivingNode {
  std::shared_ptr<Graph> graph;
  NodeId id;
};
LivingNode living_node_of(void* handle);
std::shared_ptr<GraphExec> executable_of(void* handle);

// The handle of a graph, made at the first call.
void* graph_handle(const std::shared_ptr<Graph>& graph);
void destroy_graph(void* handle);
void* node_handle(const std::shared_ptr<Graph>& graph, NodeId id);
// The nodes, all of that graph.
std::vector<NodeId> nodes_of(const std::shared_ptr<Graph>& graph, void* const* handles,
                             std::uint64_t count);

// Between node from[i] and node to[i] of the graph. The first that fails ends it.
Status add_dependencies(void* graph, void* const* from, void* const* to, std::uint64_t count);
Status remove_dependencies(void* graph, void* const* from, void* const* to, std::uint64_t count);

void* instantiate(const Graph& graph);
void destroy_executable(void* handle);
// Adds a node after `dependencies`; sets its handle.
Status add_node(void** handle, void* graph, void* const* dependencies, std::uint64_t count,
                Work work, Effect effect = {});
// As cudaGraphNodeType and CUgraphNodeType number the kinds of nodes.
std::uint32_t node_type(const Work& work);
// As the two-call protocol of CUDA: fills at most *count handles (null: none), sets *count.
void list_nodes(const std::shared_ptr<Graph>& graph, const std::vector<NodeId>& nodes,
                void** handles, std::uint64_t* count);

void list_edges(const std::shared_ptr<Graph>& graph, void** from, void** to, std::uint64_t* count);

// What the …StreamGetCaptureInfo functions tell; null pointers are left out. The array of
// dependencies is valid until the thread's next call.
struct CaptureAnswers {
  std::uint32_t* status = nullptr;
  std::uint64_t* id = nullptr;
  void** graph = nullptr;
  void* const** dependencies = nullptr;
  const void** edges = nullptr;
  std::uint64_t* dependency_count = nullptr;
};
void tell_capture_info(const Stream& stream, const CaptureAnswers& answers);

CaptureMode capture_mode_of(std::uint32_t mode);
Status begin_capture(Stream& stream, std::uint32_t mode);
Status end_capture(Stream& stream, void** graph);
Status begin_capture_to(Stream& stream, void* graph, void* const* dependencies, std::uint64_t count,
                        std::uint32_t mode);
// `flags`: 0 adds, 1 sets.
Status change_capture_dependencies(Stream& stream, void* const* dependencies, std::uint64_t count,
                                   std::uint32_t flags);
void exchange_capture_mode(std::uint32_t* mode);

// How an update of an executable graph went, as both libraries lay it out.
struct UpdateResult {
  std::uint32_t result;
  void* error_node;
  void* error_from_node;
};
Status update_executable(void* executable, void* graph, UpdateResult& result);

}  // namespace warpserve::gpu
