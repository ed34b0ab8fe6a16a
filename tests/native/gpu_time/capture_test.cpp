// What can be captured, and what spoils a capture.
#include "cuda_shim/time/capture.hpp"

#include <thread>
#include <utility>
#include <vector>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

namespace {

using Manual = Fixture<ManualClock>;
using Edges = std::vector<std::pair<NodeId, NodeId>>;

constexpr CaptureMode kAllModes[] = {CaptureMode::kGlobal, CaptureMode::kThreadLocal,
                                     CaptureMode::kRelaxed};

// Ends a capture that is spoiled, as it has to be.
void check_spoiled(Stream& stream) {
  std::shared_ptr<Graph> graph;
  CHECK_EQ(stream.capture_info().state, CaptureState::kInvalidated);
  CHECK_EQ(stream.enqueue(ns(1)), Status::kCaptureInvalidated);
  CHECK_EQ(stream.end_capture(graph), Status::kCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK_EQ(stream.capture_info().state, CaptureState::kNone);
  CHECK_OK(stream.enqueue(ns(1)));
}

}  // namespace

TEST(captured_work_is_not_done) {
  Manual gpu;
  const auto stream = gpu.stream();
  bool effect = false;
  CHECK_OK(stream->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(stream->enqueue(ns(100)));
  CHECK_OK(stream->submit(gpu.context.fill_work(10), [&] { effect = true; }));
  const CaptureInfo info = stream->capture_info();
  CHECK_EQ(info.state, CaptureState::kActive);
  CHECK(info.id != 0);
  CHECK((info.dependencies == std::vector<NodeId>{1}));
  std::shared_ptr<Graph> graph;
  CHECK_OK(stream->end_capture(graph));
  REQUIRE(graph != nullptr);
  CHECK((graph->edges() == Edges{{0, 1}}));
  CHECK(!effect);
  CHECK_EQ(stream->capture_info().state, CaptureState::kNone);
  CHECK_OK(stream->query());
}

TEST(forks_and_joins_become_edges) {
  Manual gpu;
  const auto origin = gpu.stream();
  const auto side = gpu.context.create_stream();
  const auto fork = gpu.event();
  const auto join = gpu.event();
  CHECK_OK(origin->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(origin->enqueue(ns(1)));  // 0
  CHECK_OK(origin->record(fork));
  CHECK_OK(side->wait(fork));
  CHECK_EQ(side->capture_info().id, origin->capture_info().id);
  CHECK_OK(side->enqueue(ns(1)));    // 1
  CHECK_OK(origin->enqueue(ns(1)));  // 2
  CHECK_OK(side->record(join));
  CHECK_OK(origin->wait(join));
  CHECK_OK(origin->enqueue(ns(1)));  // 3
  std::shared_ptr<Graph> graph;
  CHECK_OK(origin->end_capture(graph));
  REQUIRE(graph != nullptr);
  CHECK((graph->edges() == Edges{{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  CHECK_EQ(side->capture_info().state, CaptureState::kNone);
  CHECK_OK(side->enqueue(ns(1)));
}

TEST(a_forked_stream_has_to_join_again) {
  Manual gpu;
  const auto origin = gpu.stream();
  const auto side = gpu.stream();
  const auto fork = gpu.event();
  CHECK_OK(origin->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(origin->enqueue(ns(1)));
  CHECK_OK(origin->record(fork));
  CHECK_OK(side->wait(fork));
  CHECK_OK(side->enqueue(ns(1)));
  std::shared_ptr<Graph> graph;
  CHECK_EQ(origin->end_capture(graph), Status::kCaptureUnjoined);
  CHECK(graph == nullptr);
  CHECK_EQ(side->capture_info().state, CaptureState::kNone);
}

TEST(a_fork_without_work_needs_no_join) {
  Manual gpu;
  const auto origin = gpu.stream();
  const auto side = gpu.stream();
  const auto fork = gpu.event();
  CHECK_OK(origin->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(origin->enqueue(ns(1)));
  CHECK_OK(origin->record(fork));
  CHECK_OK(side->wait(fork));
  CHECK_OK(origin->enqueue(ns(1)));
  std::shared_ptr<Graph> graph;
  CHECK_OK(origin->end_capture(graph));
}

TEST(a_capture_begins_once_and_ends_where_it_began) {
  Manual gpu;
  const auto origin = gpu.stream();
  const auto side = gpu.stream();
  const auto fork = gpu.event();
  std::shared_ptr<Graph> graph;
  CHECK_EQ(origin->end_capture(graph), Status::kIllegalState);
  CHECK_EQ(gpu.context.legacy_stream().begin_capture(CaptureMode::kRelaxed),
           Status::kCaptureUnsupported);
  CHECK_OK(origin->begin_capture(CaptureMode::kGlobal));
  CHECK_EQ(origin->begin_capture(CaptureMode::kGlobal), Status::kIllegalState);
  CHECK_OK(origin->record(fork));
  CHECK_OK(side->wait(fork));
  CHECK_EQ(side->end_capture(graph), Status::kCaptureUnmatched);
  CHECK_OK(origin->end_capture(graph));
}

TEST(only_a_relaxed_capture_can_be_ended_by_another_thread) {
  Manual gpu;
  for (const CaptureMode mode : kAllModes) {
    const auto stream = gpu.stream();
    CHECK_OK(stream->begin_capture(mode));
    std::shared_ptr<Graph> graph;
    std::thread([&] {
      CHECK_EQ(stream->end_capture(graph),
               mode == CaptureMode::kRelaxed ? Status::kOk : Status::kCaptureWrongThread);
    }).join();
    if (mode != CaptureMode::kRelaxed) CHECK_OK(stream->end_capture(graph));
  }
}

TEST(a_capturing_stream_can_t_be_waited_for) {
  for (const CaptureMode mode : kAllModes) {
    Manual gpu;
    const auto stream = gpu.stream();
    CHECK_OK(stream->begin_capture(mode));
    CHECK_EQ(stream->synchronize(), Status::kCaptureUnsupported);
    CHECK_EQ(stream->query(), Status::kCaptureInvalidated);
    check_spoiled(*stream);
    CHECK_OK(stream->begin_capture(mode));
    CHECK_EQ(gpu.context.synchronize(), Status::kCaptureUnsupported);
    check_spoiled(*stream);
  }
}

TEST(a_captured_event_has_no_instant) {
  Manual gpu;
  const auto stream = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(stream->begin_capture(CaptureMode::kRelaxed));
  CHECK_OK(stream->record(event));
  CHECK_EQ(event->query(), Status::kCapturedEvent);
  check_spoiled(*stream);
  CHECK_EQ(event->synchronize(), Status::kCapturedEvent);
  CHECK_EQ(gpu.stream()->wait(event), Status::kCapturedEvent);
  VirtualDuration elapsed;
  CHECK_EQ(Event::elapsed(*event, *event, elapsed), Status::kCapturedEvent);
  CHECK_OK(stream->record(event));
  CHECK_EQ(event->query(), Status::kNotReady);  // one ns of work from check_spoiled
}

TEST(captured_work_can_t_depend_on_other_work) {
  Manual gpu;
  const auto stream = gpu.stream();
  const auto other = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(other->enqueue(ns(100)));
  CHECK_OK(other->record(event));
  CHECK_OK(stream->begin_capture(CaptureMode::kRelaxed));
  CHECK_OK(stream->wait(gpu.event()));  // never recorded: nothing to wait for
  CHECK_EQ(stream->wait(event), Status::kCaptureIsolation);
  check_spoiled(*stream);
}

TEST(two_captures_can_t_merge) {
  Manual gpu;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(a->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(b->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(a->record(event));
  CHECK_EQ(b->wait(event), Status::kCaptureMerge);
  check_spoiled(*a);
  check_spoiled(*b);
}

TEST(the_legacy_stream_spoils_captures_of_blocking_streams_only) {
  Manual gpu;
  Stream& legacy = gpu.context.legacy_stream();
  const auto apart = gpu.stream();
  CHECK_OK(apart->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(legacy.enqueue(ns(1)));
  std::shared_ptr<Graph> graph;
  CHECK_OK(apart->end_capture(graph));

  const auto blocking = gpu.context.create_stream();
  const auto event = gpu.event();
  CHECK_OK(blocking->begin_capture(CaptureMode::kRelaxed));
  CHECK_EQ(legacy.enqueue(ns(1)), Status::kCaptureImplicit);
  check_spoiled(*blocking);
  CHECK_OK(blocking->begin_capture(CaptureMode::kRelaxed));
  CHECK_EQ(legacy.synchronize(), Status::kCaptureImplicit);
  check_spoiled(*blocking);
  CHECK_OK(blocking->begin_capture(CaptureMode::kRelaxed));
  CHECK_OK(blocking->record(event));
  CHECK_EQ(legacy.wait(event), Status::kCaptureImplicit);
  check_spoiled(*blocking);
}

TEST(unsafe_calls_are_forbidden_by_mode) {
  struct Case {
    CaptureMode capture;
    CaptureMode caller;
    bool same_thread;
    bool forbidden;
  };
  using enum CaptureMode;
  for (const Case& test : {
           Case{kGlobal, kGlobal, true, true},
           Case{kGlobal, kGlobal, false, true},
           Case{kGlobal, kThreadLocal, true, true},
           Case{kGlobal, kThreadLocal, false, false},
           Case{kGlobal, kRelaxed, true, false},
           Case{kGlobal, kRelaxed, false, false},
           Case{kThreadLocal, kGlobal, true, true},
           Case{kThreadLocal, kGlobal, false, false},
           Case{kThreadLocal, kThreadLocal, true, true},
           Case{kThreadLocal, kRelaxed, true, false},
           Case{kRelaxed, kGlobal, true, false},
           Case{kRelaxed, kGlobal, false, false},
       }) {
    Manual gpu;
    const auto stream = gpu.stream();
    CHECK_OK(stream->begin_capture(test.capture));
    Status answer = Status::kOk;
    const auto call = [&] {
      const CaptureMode before = exchange_thread_capture_mode(test.caller);
      CHECK_EQ(before, kGlobal);
      answer = check_unsafe_call();
      CHECK_EQ(exchange_thread_capture_mode(before), test.caller);
    };
    if (test.same_thread) {
      call();
    } else {
      std::thread(call).join();
    }
    CHECK_EQ(answer, test.forbidden ? Status::kCaptureUnsupported : Status::kOk);
    std::shared_ptr<Graph> graph;
    CHECK_EQ(stream->end_capture(graph),
             test.forbidden ? Status::kCaptureInvalidated : Status::kOk);
  }
}

TEST(what_a_destroyed_stream_has_captured_must_still_be_joined) {
  for (const bool joins : {true, false}) {
    Manual gpu;
    const auto origin = gpu.stream();
    auto side = gpu.stream();
    const auto fork = gpu.event();
    const auto join = gpu.event();
    CHECK_OK(origin->begin_capture(CaptureMode::kGlobal));
    CHECK_OK(origin->record(fork));
    CHECK_OK(side->wait(fork));
    CHECK_OK(side->enqueue(ns(1)));
    CHECK_OK(side->record(join));
    side.reset();
    if (joins) CHECK_OK(origin->wait(join));
    std::shared_ptr<Graph> graph;
    CHECK_EQ(origin->end_capture(graph), joins ? Status::kOk : Status::kCaptureUnjoined);
  }
}

TEST(a_capture_is_over_when_its_origin_is_destroyed) {
  Manual gpu;
  auto origin = gpu.stream();
  const auto side = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(origin->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(origin->record(event));
  CHECK_OK(side->wait(event));
  origin.reset();
  CHECK_EQ(side->capture_info().state, CaptureState::kNone);
  CHECK_OK(side->enqueue(ns(1)));
  CHECK_OK(check_unsafe_call());
}

TEST(dependencies_of_a_capturing_stream_can_be_changed) {
  Manual gpu;
  const auto stream = gpu.stream();
  CHECK_EQ(stream->change_capture_dependencies({}, DependencyChange::kSet), Status::kIllegalState);
  CHECK_OK(stream->begin_capture(CaptureMode::kGlobal));
  CHECK_OK(stream->enqueue(ns(1)));  // 0
  CHECK_OK(stream->enqueue(ns(1)));  // 1
  CHECK_EQ(stream->change_capture_dependencies({9}, DependencyChange::kSet), Status::kInvalidValue);
  CHECK_OK(stream->change_capture_dependencies({0}, DependencyChange::kSet));
  CHECK_OK(stream->enqueue(ns(1)));  // 2
  CHECK_OK(stream->change_capture_dependencies({1}, DependencyChange::kAdd));
  CHECK_OK(stream->enqueue(ns(1)));  // 3
  std::shared_ptr<Graph> graph;
  CHECK_OK(stream->end_capture(graph));
  REQUIRE(graph != nullptr);
  CHECK((graph->edges() == Edges{{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
}

TEST(a_capture_can_go_on_with_a_graph) {
  Manual gpu;
  const auto stream = gpu.stream();
  const auto graph = std::make_shared<Graph>();
  NodeId root = 0;
  CHECK_OK(graph->add(Node{.work = KernelWork{ns(1)}}, root));
  CHECK_EQ(stream->begin_capture_to(graph, {root + 1}, CaptureMode::kGlobal),
           Status::kInvalidValue);
  CHECK_OK(stream->begin_capture_to(graph, {root}, CaptureMode::kGlobal));
  CHECK_OK(stream->enqueue(ns(1)));
  std::shared_ptr<Graph> captured;
  CHECK_OK(stream->end_capture(captured));
  CHECK_EQ(captured, graph);
  CHECK((graph->edges() == Edges{{0, 1}}));
}
