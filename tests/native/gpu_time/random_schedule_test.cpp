// Random programs of streams, events and graphs against a reference that keeps one number a stream.
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

namespace {

constexpr int kStreams = 4;
constexpr int kEvents = 3;
constexpr int kPrograms = 300;
constexpr int kOperations = 60;

enum class Op { kKernel, kRecord, kWait, kLegacyKernel, kHostRuns, kCollective };

struct Step {
  Op op;
  std::size_t stream;
  std::size_t event;
  std::int64_t ns;
};

std::vector<Step> random_program(std::mt19937& random, int ops) {
  const auto below = [&random](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  std::vector<Step> program;
  for (int i = 0; i < kOperations; ++i) {
    program.push_back({static_cast<Op>(below(ops)), static_cast<std::size_t>(below(kStreams)),
                       static_cast<std::size_t>(below(kEvents)), below(1000)});
  }
  return program;
}

// Even streams are blocking. The end of a collective is drawn when the program is.
struct Reference {
  std::int64_t now = 0;
  std::int64_t legacy = 0;
  std::vector<std::int64_t> streams = std::vector<std::int64_t>(kStreams);
  std::vector<std::int64_t> events = std::vector<std::int64_t>(kEvents);

  std::int64_t ready(std::size_t stream) const {
    const std::int64_t joined = stream % 2 == 0 ? legacy : 0;
    return std::max({streams[stream], joined, now});
  }

  void run(const Step& step) {
    std::int64_t& tail = streams[step.stream];
    switch (step.op) {
      case Op::kKernel:
      case Op::kCollective:
        tail = ready(step.stream) + step.ns;
        break;
      case Op::kRecord:
        tail = events[step.event] = ready(step.stream);
        break;
      case Op::kWait:
        tail = std::max(ready(step.stream), events[step.event]);
        break;
      case Op::kLegacyKernel:
        legacy = std::max(legacy, now);
        for (std::size_t i = 0; i < kStreams; i += 2) legacy = std::max(legacy, streams[i]);
        legacy += step.ns;
        break;
      case Op::kHostRuns:
        now += step.ns;
        break;
    }
  }
};

struct Device : Fixture<ManualClock> {
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Event>> events;
  std::vector<std::function<void()>> late;  // what makes the collectives known

  Device() {
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(context.create_stream({.blocking = i % 2 == 0}));
    }
    for (int i = 0; i < kEvents; ++i) events.push_back(event());
  }

  // Its end becomes known when all collectives before it are, and `late` has been run.
  PendingWork collective(VirtualDuration duration) {
    return {[this, duration](const Completion& ready, CompletionSource end) {
      late.emplace_back([ready, end, duration] {
        ready.when_known([end, duration](VirtualTime from) { end.resolve(from + duration); });
      });
    }};
  }

  void run(const Step& step) {
    Stream& stream = *streams[step.stream];
    switch (step.op) {
      case Op::kKernel:
        CHECK_OK(stream.enqueue(ns(step.ns)));
        break;
      case Op::kCollective:
        CHECK_OK(stream.submit(collective(ns(step.ns))));
        break;
      case Op::kRecord:
        CHECK_OK(stream.record(events[step.event]));
        break;
      case Op::kWait:
        CHECK_OK(stream.wait(events[step.event]));
        break;
      case Op::kLegacyKernel:
        CHECK_OK(context.legacy_stream().enqueue(ns(step.ns)));
        break;
      case Op::kHostRuns:
        clock.advance(ns(step.ns));
        break;
    }
  }
};

}  // namespace

TEST(random_programs_end_when_the_reference_says) {
  std::mt19937 random(1);
  for (int program = 0; program < kPrograms; ++program) {
    Device device;
    Reference reference;
    for (const Step& step : random_program(random, 5)) {
      device.run(step);
      reference.run(step);
      CHECK_EQ(*device.streams[step.stream]->tail().instant(),
               at(std::max(reference.streams[step.stream],
                           step.stream % 2 == 0 ? reference.legacy : 0)));
    }
    CHECK_OK(device.context.synchronize());
    std::int64_t last = std::max(reference.now, reference.legacy);
    for (const std::int64_t tail : reference.streams) last = std::max(last, tail);
    CHECK_EQ(device.clock.now(), at(last));
  }
}

TEST(random_programs_end_the_same_whatever_the_order_in_which_collectives_become_known) {
  std::mt19937 random(2);
  for (int program = 0; program < kPrograms; ++program) {
    Device device;
    Reference reference;
    for (const Step& step : random_program(random, 6)) {
      device.run(step);
      reference.run(step);
    }
    std::shuffle(device.late.begin(), device.late.end(), random);
    for (const auto& make_known : device.late) make_known();
    for (std::size_t i = 0; i < kStreams; ++i) {
      CHECK_EQ(*device.streams[i]->tail().instant(),
               at(std::max(reference.streams[i], i % 2 == 0 ? reference.legacy : 0)));
    }
  }
}

TEST(random_captures_replay_as_eager_execution_on_idle_streams) {
  std::mt19937 random(3);
  for (int program = 0; program < kPrograms; ++program) {
    const std::vector<Step> steps = random_program(random, 3);
    // Forks all streams from the first, runs the steps, and joins them again.
    const auto run = [&steps](Device& device) {
      Stream& origin = *device.streams[0];
      const auto fork = device.event();
      CHECK_OK(origin.record(fork));
      for (const auto& stream : device.streams) CHECK_OK(stream->wait(fork));
      for (const auto& event : device.events) CHECK_OK(origin.record(event));
      for (const Step& step : steps) device.run(step);
      for (const auto& stream : device.streams) {
        const auto join = device.event();
        CHECK_OK(stream->record(join));
        CHECK_OK(origin.wait(join));
      }
    };
    Device eager;
    run(eager);

    Device device;
    Stream& origin = *device.streams[0];
    std::shared_ptr<Graph> graph;
    CHECK_OK(origin.begin_capture(CaptureMode::kThreadLocal));
    run(device);
    CHECK_OK(origin.end_capture(graph));
    REQUIRE(graph != nullptr);
    const auto exec = GraphExec::instantiate(*graph);
    REQUIRE(exec != nullptr);
    CHECK_OK(exec->launch(origin));
    CHECK_EQ(*origin.tail().instant(), *eager.streams[0]->tail().instant());
  }
}

TEST(random_copies_never_overlap_and_never_begin_before_they_are_ready) {
  std::mt19937 random(4);
  for (int round = 0; round < kPrograms; ++round) {
    CopyEngine engine;
    std::map<std::int64_t, std::int64_t> taken;  // from, until
    for (int copy = 0; copy < kOperations; ++copy) {
      const auto ready = static_cast<std::int64_t>(random() % 2000);
      const auto duration = static_cast<std::int64_t>(random() % 50 + 1);
      const std::int64_t until = engine.reserve(at(ready), ns(duration)).ns();
      const std::int64_t from = until - duration;
      CHECK(from >= ready);
      for (const auto& [other_from, other_until] : taken) {
        CHECK(until <= other_from || from >= other_until);
      }
      // Not a ns earlier was free for as long.
      if (from > ready) {
        CHECK(std::any_of(taken.begin(), taken.end(), [&](const auto& other) {
          return other.first < until - 1 && other.second > from - 1;
        }));
      }
      taken[from] = until;
    }
  }
}
