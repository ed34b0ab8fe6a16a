// Many threads at everything at once: for ThreadSanitizer, and for the laws that hold in any order.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 40;

void run_in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST(threads_share_streams_events_and_graphs) {
  Fixture<SettlingClock> gpu;
  const auto shared = gpu.context.create_stream();
  const auto event = gpu.event();
  std::atomic<int> host_runs{0};
  Graph graph;
  NodeId id = 0;
  CHECK_OK(graph.add(Node{.work = KernelWork{ns(10)}}, id));
  CHECK_OK(graph.add(Node{.work = gpu.context.copy_work(CopyDirection::kDeviceToHost, 10),
                          .effect = [&] { ++host_runs; },
                          .dependencies = {id}},
                     id));
  const auto exec = GraphExec::instantiate(graph);
  run_in_threads([&](int thread) {
    exchange_thread_capture_mode(CaptureMode::kThreadLocal);
    const auto own = gpu.stream();
    for (int round = 0; round < kRounds; ++round) {
      CHECK_OK(shared->enqueue(ns(5)));
      CHECK_OK(shared->record(event));
      CHECK_OK(own->wait(event));
      CHECK_OK(own->submit(gpu.context.copy_work(CopyDirection::kHostToDevice, 20)));
      CHECK_OK(exec->launch(thread % 2 == 0 ? *own : *shared));
      CHECK_OK(own->submit(gpu.context.host_work([&] { ++host_runs; })));
      CHECK_OK(gpu.context.per_thread_stream().enqueue(ns(3)));
      const auto passing = gpu.context.create_stream();
      CHECK_OK(passing->enqueue(ns(7)));
      static_cast<void>(event->query());
      if (round % 8 == 0) CHECK_OK(own->synchronize());
      if (round % 16 == 0) CHECK_OK(gpu.context.legacy_stream().enqueue(ns(1)));
    }
    CHECK_OK(own->synchronize());
  });
  CHECK_OK(gpu.context.synchronize());
  CHECK_EQ(host_runs.load(), 2 * kThreads * kRounds);
}

TEST(threads_capture_beside_each_other) {
  Fixture<ManualClock> gpu;
  run_in_threads([&](int) {
    exchange_thread_capture_mode(CaptureMode::kThreadLocal);
    for (int round = 0; round < kRounds; ++round) {
      const auto stream = gpu.stream();
      const auto side = gpu.stream();
      const auto fork = gpu.event();
      const auto join = gpu.event();
      std::shared_ptr<Graph> graph;
      CHECK_OK(stream->begin_capture(CaptureMode::kThreadLocal));
      CHECK_OK(stream->record(fork));
      CHECK_OK(side->wait(fork));
      CHECK_OK(side->enqueue(ns(30)));
      CHECK_OK(stream->enqueue(ns(20)));
      CHECK_OK(side->record(join));
      CHECK_OK(stream->wait(join));
      CHECK_OK(stream->end_capture(graph));
      const auto exec = GraphExec::instantiate(*graph);
      CHECK_OK(exec->launch(*stream));
      CHECK_EQ(*stream->tail().instant(), at(30));
    }
  });
}

TEST(ends_become_known_in_one_thread_while_others_build_on_them) {
  for (int round = 0; round < kRounds; ++round) {
    CompletionSource sources[kThreads];
    std::atomic<int> actions{0};
    run_in_threads([&](int thread) {
      const Completion own = sources[thread].completion();
      const Completion next = sources[(thread + 1) % kThreads].completion();
      const Completion joined = latest(own.after(ns(10)), next).after(ns(1));
      joined.when_known([&](VirtualTime) { ++actions; });
      sources[thread].resolve(at(thread));
      const int other = (thread + 1) % kThreads;
      CHECK_EQ(joined.await_known(), at(std::max(thread + 10, other) + 1));
    });
    CHECK_EQ(actions.load(), kThreads);
  }
}
