#include "cuda_shim/entry/driver.hpp"
#include "cuda_shim/entry/graphs.hpp"
#include "cuda_shim/entry/streams.hpp"

using namespace warpserve::gpu;

namespace {

// cudaHostNodeParams and CUDA_HOST_NODE_PARAMS.
struct HostNodeParameters {
  void (*function)(void*);
  void* data;
};

}  // namespace

std::uint32_t cuGraphCreate(void** graph, std::uint32_t flags) {
  return driver_call([&] {
    require(graph != nullptr && flags == 0);
    *graph = graph_handle(std::make_shared<Graph>());
  });
}

std::uint32_t cuGraphDestroy(void* graph) {
  return driver_call([&] { destroy_graph(graph); });
}

std::uint32_t cuGraphClone(void** clone, void* graph) {
  return driver_call([&] {
    require(clone != nullptr);
    *clone = graph_handle(std::make_shared<Graph>(*graph_of(graph)));
  });
}

std::uint32_t cuGraphAddEmptyNode(void** node, void* graph, void* const* dependencies,
                                  std::uint64_t count) {
  return driver_call([&] { return add_node(node, graph, dependencies, count, EmptyWork()); });
}

std::uint32_t cuGraphAddKernelNode(void** node, void* graph, void* const* dependencies,
                                   std::uint64_t count, const void* parameters) {
  return driver_call([&] {
    require(parameters != nullptr);
    return add_node(node, graph, dependencies, count, KernelWork());
  });
}

std::uint32_t cuGraphAddKernelNode_v2(void** node, void* graph, void* const* dependencies,
                                      std::uint64_t count, const void* parameters) {
  return driver_call([&] {
    require(parameters != nullptr);
    return add_node(node, graph, dependencies, count, KernelWork());
  });
}

std::uint32_t cuGraphAddHostNode(void** node, void* graph, void* const* dependencies,
                                 std::uint64_t count, const void* parameters) {
  return driver_call([&] {
    require(parameters != nullptr);
    const auto host = *static_cast<const HostNodeParameters*>(parameters);
    require(host.function != nullptr);
    return add_node(node, graph, dependencies, count,
                    current_device().time.host_work([host] { host.function(host.data); }));
  });
}

std::uint32_t cuGraphAddChildGraphNode(void** node, void* graph, void* const* dependencies,
                                       std::uint64_t count, void* child) {
  return driver_call(
      [&] { return add_node(node, graph, dependencies, count, ChildGraphWork{graph_of(child)}); });
}

std::uint32_t cuGraphAddEventRecordNode(void** node, void* graph, void* const* dependencies,
                                        std::uint64_t count, void* event) {
  return driver_call(
      [&] { return add_node(node, graph, dependencies, count, EventRecordWork{event_of(event)}); });
}

std::uint32_t cuGraphAddEventWaitNode(void** node, void* graph, void* const* dependencies,
                                      std::uint64_t count, void* event) {
  return driver_call(
      [&] { return add_node(node, graph, dependencies, count, EventWaitWork{event_of(event)}); });
}

std::uint32_t cuGraphGetNodes(void* graph, void** nodes, std::uint64_t* count) {
  return driver_call([&] {
    const auto owner = graph_of(graph);
    list_nodes(owner, owner->nodes(), nodes, count);
  });
}

std::uint32_t cuGraphGetRootNodes(void* graph, void** nodes, std::uint64_t* count) {
  return driver_call([&] {
    const auto owner = graph_of(graph);
    list_nodes(owner, owner->roots(), nodes, count);
  });
}

std::uint32_t cuGraphDestroyNode(void* node) {
  return driver_call([&] {
    const auto [graph, id] = living_node_of(node);
    return graph->remove(id);
  });
}

std::uint32_t cuGraphAddDependencies(void* graph, void* const* from, void* const* to,
                                     std::uint64_t count) {
  return driver_call([&] { return add_dependencies(graph, from, to, count); });
}

std::uint32_t cuGraphAddDependencies_v2(void* graph, void* const* from, void* const* to,
                                        const void*, std::uint64_t count) {
  return driver_call([&] { return add_dependencies(graph, from, to, count); });
}

std::uint32_t cuGraphRemoveDependencies(void* graph, void* const* from, void* const* to,
                                        std::uint64_t count) {
  return driver_call([&] { return remove_dependencies(graph, from, to, count); });
}

std::uint32_t cuGraphRemoveDependencies_v2(void* graph, void* const* from, void* const* to,
                                           const void*, std::uint64_t count) {
  return driver_call([&] { return remove_dependencies(graph, from, to, count); });
}

std::uint32_t cuGraphInstantiate(void** executable, void* graph, void**, char*, std::uint64_t) {
  return driver_call([&] {
    require(executable != nullptr);
    *executable = instantiate(*graph_of(graph));
  });
}

std::uint32_t cuGraphInstantiate_v2(void** executable, void* graph, void**, char*, std::uint64_t) {
  return driver_call([&] {
    require(executable != nullptr);
    *executable = instantiate(*graph_of(graph));
  });
}

std::uint32_t cuGraphInstantiateWithFlags(void** executable, void* graph, std::uint64_t) {
  return driver_call([&] {
    require(executable != nullptr);
    *executable = instantiate(*graph_of(graph));
  });
}

DRIVER_STREAM_CALL(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
                   (void** executable, void* graph, void* parameters),
                   require(executable != nullptr && parameters != nullptr);
                   *executable = instantiate(*graph_of(graph));)

DRIVER_STREAM_CALL(cuGraphLaunch, cuGraphLaunch_ptsz, (void* executable, void* stream),
                   return executable_of(executable)->launch(*stream_of(stream, kDefaultStream));)

DRIVER_STREAM_CALL(cuGraphUpload, cuGraphUpload_ptsz, (void* executable, void* stream),
                   executable_of(executable);
                   return stream_of(stream, kDefaultStream)->submit(EmptyWork());)

std::uint32_t cuGraphExecDestroy(void* executable) {
  return driver_call([&] { destroy_executable(executable); });
}

std::uint32_t cuGraphExecUpdate_v2(void* executable, void* graph, void* result) {
  return driver_call([&] {
    require(result != nullptr);
    return update_executable(executable, graph, *static_cast<UpdateResult*>(result));
  });
}

std::uint32_t cuGraphNodeSetEnabled(void* executable, void* node, std::uint32_t enabled) {
  return driver_call(
      [&] { return executable_of(executable)->set_enabled(node_of(node).id, enabled != 0); });
}

std::uint32_t cuGraphNodeGetEnabled(void* executable, void* node, std::uint32_t* enabled) {
  return driver_call([&] {
    require(enabled != nullptr);
    bool answer = false;
    const Status status = executable_of(executable)->is_enabled(node_of(node).id, answer);
    if (status == Status::kOk) *enabled = answer ? 1 : 0;
    return status;
  });
}

std::uint32_t cuGraphNodeGetType(void* node, std::uint32_t* type) {
  return driver_call([&] {
    require(type != nullptr);
    const auto [graph, id] = living_node_of(node);
    *type = node_type(graph->find(id)->work);
  });
}

std::uint32_t cuGraphGetEdges(void* graph, void** from, void** to, std::uint64_t* count) {
  return driver_call([&] { list_edges(graph_of(graph), from, to, count); });
}

std::uint32_t cuGraphGetEdges_v2(void* graph, void** from, void** to, void*, std::uint64_t* count) {
  return driver_call([&] { list_edges(graph_of(graph), from, to, count); });
}

std::uint32_t cuGraphNodeGetDependencies(void* node, void** dependencies, std::uint64_t* count) {
  return driver_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->find(id)->dependencies, dependencies, count);
  });
}

std::uint32_t cuGraphNodeGetDependencies_v2(void* node, void** dependencies, void*,
                                            std::uint64_t* count) {
  return driver_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->find(id)->dependencies, dependencies, count);
  });
}

std::uint32_t cuGraphNodeGetDependentNodes(void* node, void** dependents, std::uint64_t* count) {
  return driver_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->dependents(id), dependents, count);
  });
}

std::uint32_t cuGraphNodeGetDependentNodes_v2(void* node, void** dependents, void*,
                                              std::uint64_t* count) {
  return driver_call([&] {
    const auto [graph, id] = living_node_of(node);
    list_nodes(graph, graph->dependents(id), dependents, count);
  });
}
