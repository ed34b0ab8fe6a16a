#include "cuda_shim/entry/graphs.hpp"
#include "cuda_shim/entry/runtime.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

// cudaHostNodeParams and CUDA_HOST_NODE_PARAMS.
struct HostNodeParameters {
  void (*function)(void*);
  void* data;
};

}  // namespace

std::uint32_t cudaGraphCreate(void** graph, std::uint32_t flags) {
  return runtime_call([&] {
    require(graph != nullptr && flags == 0);
    *graph = graph_handle(std::make_shared<Graph>());
  });
}

std::uint32_t cudaGraphDestroy(void* graph) {
  return runtime_call([&] { destroy_graph(graph); });
}

std::uint32_t cudaGraphClone(void** clone, void* graph) {
  return runtime_call([&] {
    require(clone != nullptr);
    *clone = graph_handle(std::make_shared<Graph>(*graph_of(graph)));
  });
}

std::uint32_t cudaGraphAddEmptyNode(void** node, void* graph, void* const* dependencies,
                                    std::uint64_t count) {
  return runtime_call([&] { return add_node(node, graph, dependencies, count, EmptyWork()); });
}

std::uint32_t cudaGraphAddKernelNode(void** node, void* graph, void* const* dependencies,
                                     std::uint64_t count, const void* parameters) {
  return runtime_call([&] {
    require(parameters != nullptr);
    return add_node(node, graph, dependencies, count, KernelWork());
  });
}

std::uint32_t cudaGraphAddHostNode(void** node, void* graph, void* const* dependencies,
                                   std::uint64_t count, const void* parameters) {
  return runtime_call([&] {
    require(parameters != nullptr);
    const auto host = *static_cast<const HostNodeParameters*>(parameters);
    require(host.function != nullptr);
    return add_node(node, graph, dependencies, count,
                    current_device().time.host_work([host] { host.function(host.data); }));
  });
}

std::uint32_t cudaGraphAddChildGraphNode(void** node, void* graph, void* const* dependencies,
                                         std::uint64_t count, void* child) {
  return runtime_call(
      [&] { return add_node(node, graph, dependencies, count, ChildGraphWork{graph_of(child)}); });
}

std::uint32_t cudaGraphAddEventRecordNode(void** node, void* graph, void* const* dependencies,
                                          std::uint64_t count, void* event) {
  return runtime_call(
      [&] { return add_node(node, graph, dependencies, count, EventRecordWork{event_of(event)}); });
}

std::uint32_t cudaGraphAddEventWaitNode(void** node, void* graph, void* const* dependencies,
                                        std::uint64_t count, void* event) {
  return runtime_call(
      [&] { return add_node(node, graph, dependencies, count, EventWaitWork{event_of(event)}); });
}

std::uint32_t cudaGraphGetNodes(void* graph, void** nodes, std::uint64_t* count) {
  return runtime_call([&] {
    const auto owner = graph_of(graph);
    list_nodes(owner, owner->nodes(), nodes, count);
  });
}

std::uint32_t cudaGraphGetRootNodes(void* graph, void** nodes, std::uint64_t* count) {
  return runtime_call([&] {
    const auto owner = graph_of(graph);
    list_nodes(owner, owner->roots(), nodes, count);
  });
}

std::uint32_t cudaGraphDestroyNode(void* node) {
  return runtime_call([&] {
    const auto [graph, id] = living_node_of(node);
    return graph->remove(id);
  });
}

#if WARPSERVE_CUDA_MAJOR == 12
std::uint32_t cudaGraphAddDependencies(void* graph, void* const* from, void* const* to,
                                       std::uint64_t count) {
  return runtime_call([&] { return add_dependencies(graph, from, to, count); });
}

std::uint32_t cudaGraphAddDependencies_v2(void* graph, void* const* from, void* const* to,
                                          const void*, std::uint64_t count) {
  return runtime_call([&] { return add_dependencies(graph, from, to, count); });
}

#else
std::uint32_t cudaGraphAddDependencies(void* graph, void* const* from, void* const* to, const void*,
                                       std::uint64_t count) {
  return runtime_call([&] { return add_dependencies(graph, from, to, count); });
}

#endif

#if WARPSERVE_CUDA_MAJOR == 12
std::uint32_t cudaGraphRemoveDependencies(void* graph, void* const* from, void* const* to,
                                          std::uint64_t count) {
  return runtime_call([&] { return remove_dependencies(graph, from, to, count); });
}

std::uint32_t cudaGraphRemoveDependencies_v2(void* graph, void* const* from, void* const* to,
                                             const void*, std::uint64_t count) {
  return runtime_call([&] { return remove_dependencies(graph, from, to, count); });
}

#else
std::uint32_t cudaGraphRemoveDependencies(void* graph, void* const* from, void* const* to,
                                          const void*, std::uint64_t count) {
  return runtime_call([&] { return remove_dependencies(graph, from, to, count); });
}

#endif

std::uint32_t cudaGraphInstantiate(void** executable, void* graph, std::uint64_t) {
  return runtime_call([&] {
    require(executable != nullptr);
    *executable = instantiate(*graph_of(graph));
  });
}

std::uint32_t cudaGraphInstantiateWithFlags(void** executable, void* graph, std::uint64_t) {
  return runtime_call([&] {
    require(executable != nullptr);
    *executable = instantiate(*graph_of(graph));
  });
}

RUNTIME_STREAM_CALL(cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz,
                    (void** executable, void* graph, void* parameters),
                    require(executable != nullptr && parameters != nullptr);
                    *executable = instantiate(*graph_of(graph));)

RUNTIME_STREAM_CALL(cudaGraphLaunch, cudaGraphLaunch_ptsz, (void* executable, void* stream),
                    return executable_of(executable)->launch(*stream_of(stream, kDefaultStream));)

RUNTIME_STREAM_CALL(cudaGraphUpload, cudaGraphUpload_ptsz, (void* executable, void* stream),
                    executable_of(executable);
                    return stream_of(stream, kDefaultStream)->submit(EmptyWork());)

std::uint32_t cudaGraphExecDestroy(void* executable) {
  return runtime_call([&] { destroy_executable(executable); });
}

std::uint32_t cudaGraphExecUpdate(void* executable, void* graph, void* result) {
  return runtime_call([&] {
    require(result != nullptr);
    return update_executable(executable, graph, *static_cast<UpdateResult*>(result));
  });
}

std::uint32_t cudaGraphNodeSetEnabled(void* executable, void* node, std::uint32_t enabled) {
  return runtime_call(
      [&] { return executable_of(executable)->set_enabled(node_of(node).id, enabled != 0); });
}

std::uint32_t cudaGraphNodeGetEnabled(void* executable, void* node, std::uint32_t* enabled) {
  return runtime_call([&] {
    require(enabled != nullptr);
    bool answer = false;
    const Status status = executable_of(executable)->is_enabled(node_of(node).id, answer);
    if (status == Status::kOk) *enabled = answer ? 1 : 0;
    return status;
  });
}

std::uint32_t cudaGraphNodeGetType(void* node, std::uint32_t* type) {
  return runtime_call([&] {
    require(type != nullptr);
    const auto [graph, id] = living_node_of(node);
    *type = node_type(graph->find(id)->work);
  });
}

#if WARPSERVE_CUDA_MAJOR == 12
std::uint32_t cudaGraphGetEdges(void* graph, void** from, void** to, std::uint64_t* count) {
  return runtime_call([&] { list_edges(graph_of(graph), from, to, count); });
}

std::uint32_t cudaGraphGetEdges_v2(void* graph, void** from, void** to, void*,
                                   std::uint64_t* count) {
  return runtime_call([&] { list_edges(graph_of(graph), from, to, count); });
}

#else
std::uint32_t cudaGraphGetEdges(void* graph, void** from, void** to, void*, std::uint64_t* count) {
  return runtime_call([&] { list_edges(graph_of(graph), from, to, count); });
}

#endif

#if WARPSERVE_CUDA_MAJOR == 12
std::uint32_t cudaGraphNodeGetDependencies(void* node, void** dependencies, std::uint64_t* count) {
  return runtime_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->find(id)->dependencies, dependencies, count);
  });
}

std::uint32_t cudaGraphNodeGetDependencies_v2(void* node, void** dependencies, void*,
                                              std::uint64_t* count) {
  return runtime_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->find(id)->dependencies, dependencies, count);
  });
}

#else
std::uint32_t cudaGraphNodeGetDependencies(void* node, void** dependencies, void*,
                                           std::uint64_t* count) {
  return runtime_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->find(id)->dependencies, dependencies, count);
  });
}

#endif

#if WARPSERVE_CUDA_MAJOR == 12
std::uint32_t cudaGraphNodeGetDependentNodes(void* node, void** dependents, std::uint64_t* count) {
  return runtime_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->dependents(id), dependents, count);
  });
}

std::uint32_t cudaGraphNodeGetDependentNodes_v2(void* node, void** dependents, void*,
                                                std::uint64_t* count) {
  return runtime_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->dependents(id), dependents, count);
  });
}

#else
std::uint32_t cudaGraphNodeGetDependentNodes(void* node, void** dependents, void*,
                                             std::uint64_t* count) {
  return runtime_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->dependents(id), dependents, count);
  });
}

#endif
