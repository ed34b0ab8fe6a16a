// Graphs: their nodes, and when a launch ends.
#include "cuda_shim/time/graph.hpp"

#include <string>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

namespace {

using Manual = Fixture<ManualClock>;

NodeId add(Graph& graph, Work work, std::vector<NodeId> dependencies = {}, Effect effect = {}) {
  NodeId id = 0;
  CHECK_OK(graph.add(Node{.work = std::move(work),
                          .effect = std::move(effect),
                          .dependencies = std::move(dependencies)},
                     id));
  return id;
}

NodeId add_kernel(Graph& graph, std::int64_t duration_ns, std::vector<NodeId> dependencies = {}) {
  return add(graph, KernelWork{ns(duration_ns)}, std::move(dependencies));
}

std::unique_ptr<GraphExec> instantiate(const Graph& graph) {
  auto exec = GraphExec::instantiate(graph);
  REQUIRE(exec != nullptr);
  return exec;
}

// What a launch on an idle device takes.
VirtualDuration launch_time(GraphExec& exec) {
  static Manual gpu;
  const auto stream = gpu.stream();
  const VirtualTime begin = gpu.clock.now();
  CHECK_OK(exec.launch(*stream));
  CHECK_OK(stream->synchronize());
  return gpu.clock.now() - begin;
}

}  // namespace

TEST(a_launch_takes_the_critical_path) {
  Graph graph;
  const NodeId a = add_kernel(graph, 10);
  const NodeId b = add_kernel(graph, 100, {a});
  const NodeId c = add_kernel(graph, 30, {a});
  const NodeId d = add_kernel(graph, 50, {c});
  add(graph, EmptyWork{}, {b, d});
  add_kernel(graph, 105);
  const auto exec = instantiate(graph);
  Manual gpu;
  const auto stream = gpu.stream();
  CHECK_OK(stream->enqueue(ns(1000)));
  CHECK_OK(exec->launch(*stream));
  CHECK_EQ(*stream->tail().instant(), at(1110));
  CHECK_OK(exec->launch(*stream, ns(7)));
  CHECK_EQ(*stream->tail().instant(), at(1227));
  CHECK_EQ(exec->launch(*stream, ns(-1)), Status::kInvalidValue);
}

TEST(an_empty_graph_takes_its_launch) {
  Manual gpu;
  const auto stream = gpu.stream();
  CHECK_OK(instantiate(Graph())->launch(*stream, ns(3)));
  CHECK_EQ(*stream->tail().instant(), at(3));
}

TEST(a_graph_does_not_run_beside_itself) {
  Manual gpu;
  Graph graph;
  add_kernel(graph, 100);
  const auto exec = instantiate(graph);
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  CHECK_OK(exec->launch(*a));
  CHECK_OK(exec->launch(*b));
  CHECK_EQ(*b->tail().instant(), at(200));
}

TEST(a_replay_equals_eager_execution) {
  // Two streams with a fork and a join, copies both ways, a fill, and effects.
  const auto run = [](Manual& gpu, Stream& origin, std::string& log) {
    const auto side = gpu.stream();
    const auto fork = gpu.event();
    const auto join = gpu.event();
    const auto note = [&log](const char* text) { return [&log, text] { log += text; }; };
    CHECK_OK(origin.submit(gpu.context.copy_work(CopyDirection::kHostToDevice, 400), note("a")));
    CHECK_OK(origin.record(fork));
    CHECK_OK(side->wait(fork));
    CHECK_OK(side->enqueue(ns(700)));
    CHECK_OK(side->submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 50), note("b")));
    CHECK_OK(origin.submit(gpu.context.fill_work(600), note("c")));
    CHECK_OK(origin.submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 500), note("d")));
    CHECK_OK(side->record(join));
    CHECK_OK(origin.wait(join));
    CHECK_OK(origin.submit(KernelWork{ns(11)}, note("e")));
  };
  Manual eager;
  std::string eager_log;
  const auto eager_stream = eager.stream();
  run(eager, *eager_stream, eager_log);
  // Both begin at 400. On the side the kernel ends at 1100 and the copy has the engine until 1150.
  // The fill ends at 700; the copy of 500 ns after it does not fit before the other one, and has
  // the engine until 1650.
  CHECK_EQ(*eager_stream->tail().instant(), at(1661));

  Manual gpu;
  std::string log;
  const auto stream = gpu.stream();
  std::shared_ptr<Graph> graph;
  CHECK_OK(stream->begin_capture(CaptureMode::kGlobal));
  run(gpu, *stream, log);
  CHECK_OK(stream->end_capture(graph));
  REQUIRE(graph != nullptr);
  CHECK_EQ(log, "");
  const auto exec = instantiate(*graph);
  CHECK_OK(exec->launch(*stream));
  CHECK_EQ(log, eager_log);
  CHECK_EQ(*stream->tail().instant(), at(1661));
  CHECK_OK(exec->launch(*stream));
  CHECK_EQ(log, eager_log + eager_log);
}

TEST(collectives_are_started_anew_by_each_launch) {
  Manual gpu;
  std::vector<CompletionSource> ends;
  std::vector<Completion> readies;
  std::string log;
  const auto stream = gpu.stream();
  std::shared_ptr<Graph> graph;
  CHECK_OK(stream->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(stream->enqueue(ns(10)));
  CHECK_OK(stream->submit(PendingWork{[&](const Completion& ready, CompletionSource end) {
    readies.push_back(ready);
    ends.push_back(end);
  }}));
  CHECK_OK(stream->submit(KernelWork{ns(5)}, [&] { log += "x"; }));
  CHECK_OK(stream->end_capture(graph));
  CHECK_EQ(ends.size(), 0u);
  const auto exec = instantiate(*graph);
  CHECK_OK(exec->launch(*stream));
  CHECK_OK(exec->launch(*stream));
  REQUIRE(ends.size() == 2);
  CHECK_EQ(*readies[0].instant(), at(10));
  CHECK(!readies[1].known());
  CHECK_EQ(log, "");
  ends[0].resolve(at(100));
  CHECK_EQ(log, "x");
  CHECK_EQ(*readies[1].instant(), at(115));
  ends[1].resolve(at(200));
  CHECK_EQ(log, "xx");
  CHECK_EQ(*stream->tail().instant(), at(205));
}

TEST(host_nodes_run_at_their_instants) {
  Fixture<SettlingClock> gpu;
  std::string log;
  Graph graph;
  const NodeId kernel = add_kernel(graph, 100);
  const NodeId host = add(graph, gpu.context.host_work([&] {
    log += std::to_string(gpu.clock.now().ns()) + " ";
    gpu.clock.wait_until(gpu.clock.now() + ns(20));
  }),
                          {kernel});
  add_kernel(graph, 3, {host});
  const auto exec = instantiate(graph);
  const auto stream = gpu.stream();
  CHECK_OK(exec->launch(*stream));
  CHECK_OK(exec->launch(*stream));
  CHECK_OK(stream->synchronize());
  CHECK_EQ(log, "100 223 ");
  CHECK_EQ(gpu.clock.now(), at(246));
}

TEST(event_nodes_act_at_each_launch) {
  Manual gpu;
  const auto stream = gpu.stream();
  const auto other = gpu.stream();
  const auto go = gpu.event();
  const auto done = gpu.event();
  std::shared_ptr<Graph> graph;
  CHECK_OK(stream->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(stream->wait(go, EventScope::kExternal));
  CHECK_OK(stream->enqueue(ns(10)));
  CHECK_OK(stream->record(done, EventScope::kExternal));
  CHECK_OK(stream->enqueue(ns(1)));
  CHECK_OK(stream->end_capture(graph));
  const auto exec = instantiate(*graph);
  CHECK_OK(exec->launch(*stream));
  CHECK_EQ(*done->completion().instant(), at(10));
  CHECK_OK(other->enqueue(ns(100)));
  CHECK_OK(other->record(go));
  CHECK_OK(exec->launch(*stream));
  CHECK_EQ(*done->completion().instant(), at(110));
  CHECK_EQ(*stream->tail().instant(), at(111));
}

TEST(a_child_graph_is_one_node_and_a_clone) {
  auto child = std::make_shared<Graph>();
  const NodeId inner = add_kernel(*child, 10);
  add_kernel(*child, 20, {inner});
  Graph parent;
  const NodeId first = add_kernel(parent, 1);
  const NodeId middle = add(parent, ChildGraphWork{child}, {first});
  add_kernel(parent, 2, {middle});
  add_kernel(*child, 1000, {inner});
  CHECK_EQ(launch_time(*instantiate(parent)), ns(33));
}

TEST(a_launch_into_a_capture_is_a_child_graph) {
  Manual gpu;
  Graph graph;
  add_kernel(graph, 10);
  const auto exec = instantiate(graph);
  const auto stream = gpu.stream();
  std::shared_ptr<Graph> outer;
  CHECK_OK(stream->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(exec->launch(*stream));
  CHECK_OK(exec->launch(*stream));
  CHECK_OK(stream->end_capture(outer));
  REQUIRE(outer != nullptr);
  CHECK_EQ(outer->nodes().size(), 2u);
  CHECK_EQ(launch_time(*instantiate(*outer)), ns(20));
}

TEST(clones_and_executables_are_snapshots) {
  Graph graph;
  const NodeId a = add_kernel(graph, 10);
  Graph clone = graph;
  const auto exec = instantiate(graph);
  add_kernel(graph, 5, {a});
  CHECK_EQ(launch_time(*exec), ns(10));
  CHECK_EQ(launch_time(*instantiate(clone)), ns(10));
  CHECK_EQ(launch_time(*instantiate(graph)), ns(15));
}

TEST(nodes_and_edges_can_be_changed) {
  Graph graph;
  const NodeId a = add_kernel(graph, 10);
  const NodeId b = add_kernel(graph, 20);
  const NodeId c = add_kernel(graph, 30);
  CHECK_OK(graph.add_dependency(a, b));
  CHECK_OK(graph.add_dependency(b, c));
  CHECK_EQ(graph.add_dependency(a, b), Status::kInvalidValue);
  CHECK_EQ(graph.add_dependency(a, a), Status::kInvalidValue);
  CHECK_EQ(graph.add_dependency(a, 99), Status::kInvalidValue);
  CHECK((graph.roots() == std::vector<NodeId>{a}));
  CHECK((graph.dependents(a) == std::vector<NodeId>{b}));
  CHECK_EQ(launch_time(*instantiate(graph)), ns(60));
  CHECK_OK(graph.remove_dependency(a, b));
  CHECK_EQ(graph.remove_dependency(a, b), Status::kInvalidValue);
  CHECK_EQ(launch_time(*instantiate(graph)), ns(50));
  CHECK_OK(graph.remove(b));
  CHECK_EQ(graph.remove(b), Status::kInvalidValue);
  CHECK(graph.find(b) == nullptr);
  CHECK((graph.nodes() == std::vector<NodeId>{a, c}));
  CHECK_EQ(launch_time(*instantiate(graph)), ns(30));
}

TEST(a_cycle_can_t_be_instantiated) {
  Graph graph;
  const NodeId a = add_kernel(graph, 10);
  const NodeId b = add_kernel(graph, 10, {a});
  CHECK_OK(graph.add_dependency(b, a));
  CHECK(GraphExec::instantiate(graph) == nullptr);
  Graph parent;
  NodeId id = 0;
  CHECK_EQ(parent.add(Node{.work = ChildGraphWork{std::make_shared<Graph>(graph)}}, id),
           Status::kInvalidValue);
}

TEST(wrong_dependencies_are_refused) {
  Graph graph;
  const NodeId a = add_kernel(graph, 10);
  NodeId id = 0;
  CHECK_EQ(graph.add(Node{.work = EmptyWork{}, .dependencies = {a, a}}, id), Status::kInvalidValue);
  CHECK_EQ(graph.add(Node{.work = EmptyWork{}, .dependencies = {a + 1}}, id),
           Status::kInvalidValue);
  CHECK_EQ(graph.nodes().size(), 1u);
}

TEST(an_executable_takes_over_a_graph_of_its_shape) {
  Graph graph;
  const NodeId a = add_kernel(graph, 10);
  add_kernel(graph, 20, {a});
  const auto exec = instantiate(graph);

  // The same shape, with a hole where a node was removed.
  Graph same;
  const NodeId removed = add_kernel(same, 1);
  const NodeId first = add_kernel(same, 100);
  const NodeId second = add_kernel(same, 200, {first});
  CHECK_OK(same.remove(removed));
  std::optional<NodeId> mismatch;
  CHECK_OK(exec->update(same, mismatch));
  CHECK_EQ(launch_time(*exec), ns(300));

  Graph other_edges;
  add_kernel(other_edges, 1);
  const NodeId apart = add_kernel(other_edges, 1);
  CHECK_EQ(exec->update(other_edges, mismatch), Status::kGraphUpdateFailure);
  CHECK_EQ(mismatch, std::optional<NodeId>(apart));
  CHECK_OK(same.remove(second));
  CHECK_EQ(exec->update(same, mismatch), Status::kGraphUpdateFailure);
  CHECK(!mismatch.has_value());
  add(same, FillWork{ns(1)}, {first});
  CHECK_EQ(exec->update(same, mismatch), Status::kGraphUpdateFailure);
  CHECK(mismatch.has_value());
}

TEST(nodes_of_an_executable_can_be_changed) {
  Graph graph;
  const NodeId a = add_kernel(graph, 10);
  const NodeId b = add(graph, EmptyWork{}, {a});
  const auto exec = instantiate(graph);
  CHECK_OK(exec->set_work(a, KernelWork{ns(40)}, {}, nullptr));
  CHECK_EQ(launch_time(*exec), ns(40));
  CHECK_EQ(exec->set_work(a, FillWork{ns(40)}, {}, nullptr), Status::kInvalidValue);
  CHECK_EQ(exec->set_work(9, KernelWork{ns(40)}, {}, nullptr), Status::kInvalidValue);
  bool enabled = false;
  CHECK_OK(exec->is_enabled(a, enabled));
  CHECK(enabled);
  CHECK_OK(exec->set_enabled(a, false));
  CHECK_OK(exec->is_enabled(a, enabled));
  CHECK(!enabled);
  CHECK_EQ(launch_time(*exec), ns(0));
  CHECK_EQ(exec->set_enabled(b, false), Status::kInvalidValue);
  CHECK_EQ(launch_time(*instantiate(graph)), ns(10));
}

TEST(the_parameters_of_a_node_are_kept) {
  const auto parameters = std::make_shared<const int>(7);
  Manual gpu;
  const auto stream = gpu.stream();
  std::shared_ptr<Graph> graph;
  CHECK_OK(stream->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(stream->submit(KernelWork{ns(1)}, {}, parameters));
  CHECK_OK(stream->end_capture(graph));
  REQUIRE(graph != nullptr);
  CHECK_EQ(graph->find(0)->parameters.get(), static_cast<const void*>(parameters.get()));
}
