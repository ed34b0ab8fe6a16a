#include <mutex>
#include <string>

#include "cuda_shim/time/host_functions.hpp"
#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

namespace {

struct Fixed : Fixture<SettlingClock> {
  // Notes its name and when it runs.
  HostWork noting(std::string name, VirtualDuration duration = {}) {
    return context.host_work([this, name, duration] {
      log += name + "@" + std::to_string(clock.now().ns()) + " ";
      clock.wait_until(clock.now() + duration);
    });
  }
  std::string log;
};

}  // namespace

TEST(a_host_function_runs_at_its_instant_and_later_work_begins_when_it_has_returned) {
  Fixed gpu;
  const auto stream = gpu.stream();
  CHECK_OK(stream->enqueue(ns(100)));
  CHECK_OK(stream->submit(gpu.noting("f", ns(30))));
  CHECK_OK(stream->enqueue(ns(5)));
  CHECK_OK(stream->synchronize());
  CHECK_EQ(gpu.clock.now(), at(135));
  CHECK_EQ(gpu.log, "f@100 ");
}

TEST(host_functions_run_one_at_a_time_in_order_of_their_instants) {
  Fixed gpu;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  const auto c = gpu.stream();
  CHECK_OK(a->enqueue(ns(300)));
  CHECK_OK(a->submit(gpu.noting("late")));
  CHECK_OK(b->enqueue(ns(100)));
  CHECK_OK(b->submit(gpu.noting("early", ns(50))));
  CHECK_OK(c->enqueue(ns(120)));
  CHECK_OK(c->submit(gpu.noting("queued")));
  CHECK_OK(gpu.context.synchronize());
  CHECK_EQ(gpu.log, "early@100 queued@150 late@300 ");
  CHECK_EQ(*c->tail().instant(), at(150));
  CHECK_EQ(gpu.clock.now(), at(300));
}

TEST(a_host_function_may_make_an_earlier_one_ready) {
  Fixed gpu;
  CompletionSource end;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  CHECK_OK(
      a->submit(PendingWork{[&](const Completion&, CompletionSource source) { end = source; }}));
  CHECK_OK(a->submit(gpu.noting("a")));
  CHECK_OK(b->enqueue(ns(10)));
  CHECK_OK(b->submit(gpu.context.host_work([&] { end.resolve(at(40)); })));
  CHECK_OK(b->enqueue(ns(100)));
  CHECK_OK(b->submit(gpu.noting("b")));
  CHECK_OK(gpu.context.synchronize());
  CHECK_EQ(gpu.log, "a@40 b@110 ");
}

TEST(events_after_a_host_function_are_not_ready_before_it_has_returned) {
  Fixed gpu;
  const auto stream = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(stream->submit(gpu.noting("f", ns(30))));
  CHECK_OK(stream->record(event));
  CHECK_EQ(event->query(), Status::kNotReady);
  CHECK_OK(event->synchronize());
  CHECK(gpu.clock.now() >= at(30));
}

TEST(polling_until_a_callback_has_run_ends) {
  Fixed gpu;
  const auto stream = gpu.stream();
  CHECK_OK(stream->enqueue(ns(20)));
  CHECK_OK(stream->submit(gpu.noting("f")));
  while (stream->query() == Status::kNotReady) {
  }
  CHECK(gpu.clock.now() >= at(20));
  CHECK(gpu.log.starts_with("f@"));
}

TEST(a_host_function_must_not_use_the_gpu) {
  Fixed gpu;
  const auto stream = gpu.stream();
  const auto event = gpu.event();
  std::vector<Status> answers;
  CHECK_OK(stream->submit(gpu.context.host_work([&] {
    CHECK(HostFunctions::running_in_this_thread());
    answers = {stream->enqueue(ns(1)),
               stream->query(),
               stream->synchronize(),
               stream->record(event),
               event->query(),
               event->synchronize(),
               stream->wait(event),
               gpu.context.synchronize(),
               stream->begin_capture(CaptureMode::kRelaxed)};
  })));
  CHECK_OK(stream->synchronize());
  CHECK_EQ(answers.size(), 9u);
  for (const Status answer : answers) CHECK_EQ(answer, Status::kNotPermitted);
  CHECK(!HostFunctions::running_in_this_thread());
}

TEST(effects_after_a_host_function_see_what_it_did) {
  Fixed gpu;
  int value = 0;
  int seen = 0;
  const auto stream = gpu.stream();
  CHECK_OK(stream->enqueue(ns(10)));
  CHECK_OK(stream->submit(gpu.context.host_work([&] { value = 7; })));
  CHECK_OK(stream->submit(gpu.context.copy_work(CopyDirection::kHostToDevice, 4),
                          [&] { seen = value; }));
  CHECK_OK(stream->synchronize());
  CHECK_EQ(seen, 7);
}

TEST(a_context_can_go_before_its_host_functions_have_run) {
  int runs = 0;
  {
    Fixture<SettlingClock> gpu;
    CompletionSource never;
    const auto stream = gpu.stream();
    CHECK_OK(
        stream->submit(PendingWork{[&](const Completion&, CompletionSource end) { never = end; }}));
    CHECK_OK(stream->submit(gpu.context.host_work([&] { ++runs; })));
  }
  CHECK_EQ(runs, 0);
}
