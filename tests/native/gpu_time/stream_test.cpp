// Virtual end times of streams and events, by hand.
#include "cuda_shim/time/stream.hpp"

#include <string>
#include <thread>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

namespace {

using Manual = Fixture<ManualClock>;

// Collectives that the test completes.
struct Collective {
  CompletionSource end;
  Completion ready;
  PendingWork work() {
    return {[this](const Completion& from, CompletionSource source) {
      ready = from;
      end = source;
    }};
  }
};

}  // namespace

TEST(work_in_a_stream_follows_and_the_host_runs_ahead) {
  Manual gpu;
  const auto stream = gpu.stream();
  CHECK_OK(stream->enqueue(ns(100)));
  CHECK_OK(stream->enqueue(ns(50)));
  CHECK_EQ(gpu.clock.now(), at(0));
  CHECK_EQ(*stream->tail().instant(), at(150));
  CHECK_OK(stream->synchronize());
  CHECK_EQ(gpu.clock.now(), at(150));
  gpu.clock.advance(ns(30));
  CHECK_OK(stream->enqueue(ns(7)));
  CHECK_EQ(*stream->tail().instant(), at(187));
}

TEST(two_streams_overlap) {
  Manual gpu;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  CHECK_OK(a->enqueue(ns(100)));
  CHECK_OK(b->enqueue(ns(60)));
  CHECK_OK(b->synchronize());
  CHECK_EQ(gpu.clock.now(), at(60));
  CHECK_OK(gpu.context.synchronize());
  CHECK_EQ(gpu.clock.now(), at(100));
}

TEST(an_event_chain_orders_streams) {
  Manual gpu;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  const auto c = gpu.stream();
  const auto a_done = gpu.event();
  const auto b_done = gpu.event();
  CHECK_OK(a->enqueue(ns(100)));
  CHECK_OK(a->record(a_done));
  CHECK_OK(a->enqueue(ns(1000)));  // after the record: nobody waits for it
  CHECK_OK(b->enqueue(ns(30)));
  CHECK_OK(b->wait(a_done));
  CHECK_OK(b->enqueue(ns(20)));
  CHECK_OK(b->record(b_done));
  CHECK_OK(c->enqueue(ns(500)));
  CHECK_OK(c->wait(b_done));
  CHECK_EQ(*b->tail().instant(), at(120));
  CHECK_EQ(*c->tail().instant(), at(500));
  CHECK_OK(b_done->synchronize());
  CHECK_EQ(gpu.clock.now(), at(120));
  VirtualDuration elapsed;
  CHECK_OK(Event::elapsed(*a_done, *b_done, elapsed));
  CHECK_EQ(elapsed, ns(20));
  CHECK_OK(Event::elapsed(*b_done, *a_done, elapsed));
  CHECK_EQ(elapsed, ns(-20));
}

TEST(a_wait_takes_the_record_that_was_there_when_it_was_called) {
  Manual gpu;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(a->enqueue(ns(10)));
  CHECK_OK(a->record(event));
  CHECK_OK(b->wait(event));
  CHECK_OK(a->enqueue(ns(10)));
  CHECK_OK(a->record(event));
  CHECK_EQ(*b->tail().instant(), at(10));
  CHECK_OK(event->synchronize());
  CHECK_EQ(gpu.clock.now(), at(20));
}

TEST(queries_answer_not_ready_until_the_instant) {
  Manual gpu;
  const auto stream = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(event->query());  // never recorded
  CHECK_OK(event->synchronize());
  CHECK_OK(stream->query());
  CHECK_OK(stream->enqueue(ns(100)));
  CHECK_OK(stream->record(event));
  CHECK_EQ(event->query(), Status::kNotReady);
  gpu.clock.advance(ns(99));
  CHECK_EQ(event->query(), Status::kNotReady);
  CHECK_EQ(stream->query(), Status::kNotReady);
  CHECK_EQ(gpu.clock.idle_polls, 3);
  gpu.clock.advance(ns(1));
  CHECK_OK(event->query());
  CHECK_OK(stream->query());
  CHECK_EQ(gpu.clock.idle_polls, 3);
}

TEST(elapsed_time_needs_two_events_with_times_that_are_over) {
  Manual gpu;
  const auto stream = gpu.stream();
  const auto start = gpu.event();
  const auto end = gpu.event();
  const auto untimed = gpu.context.create_event({.timing = false});
  VirtualDuration elapsed;
  CHECK_OK(stream->record(start));
  CHECK_EQ(Event::elapsed(*start, *end, elapsed), Status::kInvalidHandle);
  CHECK_OK(stream->enqueue(ns(10)));
  CHECK_OK(stream->record(end));
  CHECK_OK(stream->record(untimed));
  CHECK_EQ(Event::elapsed(*start, *end, elapsed), Status::kNotReady);
  VirtualTime instant;
  CHECK_OK(end->instant(instant));
  CHECK_EQ(instant, gpu.clock.now() + ns(10));
  CHECK_EQ(Event::elapsed(*end, *gpu.event(), elapsed), Status::kInvalidHandle);
  gpu.clock.advance(ns(10));
  CHECK_OK(Event::elapsed(*start, *end, elapsed));
  CHECK_EQ(elapsed, ns(10));
  CHECK_OK(end->instant(instant));
  CHECK_EQ(instant, gpu.clock.now());
  CHECK_EQ(Event::elapsed(*start, *untimed, elapsed), Status::kInvalidHandle);
}

TEST(a_copy_overlaps_with_computing) {
  Manual gpu;
  const auto compute = gpu.stream();
  const auto copies = gpu.stream();
  CHECK_OK(compute->enqueue(ns(1000)));
  CHECK_OK(copies->submit(gpu.context.copy_work(CopyDirection::kHostToDevice, 400)));
  CHECK_EQ(*copies->tail().instant(), at(400));
  CHECK_OK(copies->submit(gpu.context.copy_work(CopyDirection::kDeviceToDevice, 50)));
  CHECK_EQ(*copies->tail().instant(), at(450));
  CHECK_EQ(*compute->tail().instant(), at(1000));
}

TEST(copies_of_one_direction_share_an_engine_and_directions_do_not) {
  Manual gpu;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  const auto c = gpu.stream();
  CHECK_OK(a->submit(gpu.context.copy_work(CopyDirection::kHostToDevice, 400)));
  CHECK_OK(b->submit(gpu.context.copy_work(CopyDirection::kHostToDevice, 100)));
  CHECK_OK(c->submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 900)));
  CHECK_EQ(*a->tail().instant(), at(400));
  CHECK_EQ(*b->tail().instant(), at(500));
  CHECK_EQ(*c->tail().instant(), at(900));
  CHECK_OK(b->submit(gpu.context.peer_copy_work(1, 200)));
  CHECK_EQ(*b->tail().instant(), at(900));
}

TEST(a_copy_that_waits_for_a_kernel_leaves_the_engine_to_others) {
  Manual gpu;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  CHECK_OK(a->enqueue(ns(10'000)));
  CHECK_OK(a->submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 100)));
  CHECK_OK(b->submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 300)));
  CHECK_EQ(*a->tail().instant(), at(10'100));
  CHECK_EQ(*b->tail().instant(), at(300));
}

TEST(a_copy_that_waits_for_a_collective_leaves_the_engine_to_others) {
  Manual gpu;
  Collective collective;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  CHECK_OK(a->submit(collective.work()));
  CHECK_OK(a->submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 100)));
  CHECK_OK(a->enqueue(ns(5)));
  CHECK_OK(b->submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 300)));
  CHECK_EQ(*b->tail().instant(), at(300));
  CHECK(!a->tail().known());
  collective.end.resolve(at(250));
  CHECK_EQ(*a->tail().instant(), at(405));  // from 300 on, when the engine is free
}

TEST(a_fill_takes_the_memory_s_time) {
  Manual gpu;
  const auto stream = gpu.stream();
  CHECK_OK(stream->submit(gpu.context.fill_work(3000)));
  CHECK_EQ(*stream->tail().instant(), at(1500));
}

TEST(a_collective_holds_its_stream_and_what_waits_for_it) {
  Manual gpu;
  Collective collective;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  const auto c = gpu.stream();
  const auto event = gpu.event();
  CHECK_OK(a->enqueue(ns(100)));
  CHECK_OK(a->submit(collective.work()));
  CHECK_EQ(*collective.ready.instant(), at(100));
  CHECK_OK(a->enqueue(ns(10)));
  CHECK_OK(a->record(event));
  CHECK_OK(b->enqueue(ns(1000)));
  CHECK_OK(b->wait(event));
  CHECK_OK(b->enqueue(ns(1)));
  CHECK_OK(c->wait(event));
  CHECK_EQ(event->query(), Status::kNotReady);
  gpu.clock.advance(ns(5000));
  CHECK_EQ(event->query(), Status::kNotReady);
  CHECK_EQ(b->query(), Status::kNotReady);
  collective.end.resolve(at(5200));
  CHECK_EQ(*b->tail().instant(), at(5211));
  CHECK_EQ(*c->tail().instant(), at(5210));
  CHECK_OK(event->synchronize());
  CHECK_EQ(gpu.clock.now(), at(5210));
}

TEST(a_synchronising_thread_waits_for_a_collective_that_another_thread_completes) {
  Fixture<SettlingClock> gpu;
  Collective collective;
  const auto stream = gpu.stream();
  CHECK_OK(stream->submit(collective.work()));
  CHECK_OK(stream->enqueue(ns(10)));
  std::thread late([&] {
    gpu.clock.wait_until(at(700));
    collective.end.resolve(gpu.clock.now() + ns(50));
  });
  CHECK_OK(stream->synchronize());
  CHECK_EQ(gpu.clock.now(), at(760));
  late.join();
}

TEST(effects_happen_at_once_or_after_the_collective_before_them) {
  Manual gpu;
  Collective collective;
  std::string log;
  const auto a = gpu.stream();
  const auto b = gpu.stream();
  const auto event = gpu.event();
  const auto note = [&log](const char* text) { return [&log, text] { log += text; }; };
  CHECK_OK(a->submit(KernelWork{ns(5)}, note("a")));
  CHECK_EQ(log, "a");
  CHECK_OK(a->submit(collective.work()));
  CHECK_OK(a->submit(KernelWork{ns(5)}, note("b")));
  CHECK_OK(a->submit(gpu.context.copy_work(CopyDirection::kDeviceToHost, 8), note("c")));
  CHECK_OK(a->submit(KernelWork{ns(5)}, note("d")));
  CHECK_OK(a->record(event));
  CHECK_OK(b->wait(event));
  CHECK_OK(b->submit(EmptyWork{}, note("e")));
  CHECK_EQ(log, "a");
  collective.end.resolve(at(100));
  CHECK_EQ(log, "abcde");
}

TEST(the_legacy_stream_joins_with_blocking_streams_both_ways) {
  Manual gpu;
  Stream& legacy = gpu.context.legacy_stream();
  const auto blocking = gpu.context.create_stream();
  const auto apart = gpu.stream();
  CHECK_OK(blocking->enqueue(ns(100)));
  CHECK_OK(apart->enqueue(ns(1000)));
  CHECK_OK(legacy.enqueue(ns(10)));
  CHECK_EQ(*legacy.tail().instant(), at(110));
  CHECK_OK(blocking->enqueue(ns(5)));
  CHECK_EQ(*blocking->tail().instant(), at(115));
  const auto other = gpu.context.create_stream();
  CHECK_OK(other->enqueue(ns(1)));
  CHECK_EQ(*other->tail().instant(), at(111));
  CHECK_EQ(*apart->tail().instant(), at(1000));
  CHECK_OK(apart->enqueue(ns(1)));
  CHECK_EQ(*apart->tail().instant(), at(1001));
  CHECK_OK(legacy.synchronize());
  CHECK_EQ(gpu.clock.now(), at(115));
}

TEST(an_event_of_the_legacy_stream_covers_blocking_streams) {
  Manual gpu;
  const auto blocking = gpu.context.create_stream();
  const auto event = gpu.event();
  CHECK_OK(blocking->enqueue(ns(100)));
  CHECK_OK(gpu.context.legacy_stream().record(event));
  CHECK_OK(event->synchronize());
  CHECK_EQ(gpu.clock.now(), at(100));
}

TEST(the_legacy_stream_waits_for_pending_blocking_streams) {
  Manual gpu;
  Collective one;
  Collective two;
  const auto a = gpu.context.create_stream();
  const auto b = gpu.context.create_stream();
  CHECK_OK(a->submit(one.work()));
  CHECK_OK(b->submit(two.work()));
  CHECK_OK(gpu.context.legacy_stream().enqueue(ns(10)));
  two.end.resolve(at(30));
  CHECK(!gpu.context.legacy_stream().tail().known());
  one.end.resolve(at(20));
  CHECK_EQ(*gpu.context.legacy_stream().tail().instant(), at(40));
}

TEST(each_thread_has_its_own_default_stream_that_joins_with_the_legacy_one) {
  Manual gpu;
  std::thread([&] {
    Stream& own = gpu.context.per_thread_stream();
    CHECK_EQ(&own, &gpu.context.per_thread_stream());
    CHECK_OK(own.enqueue(ns(100)));
  }).join();
  std::thread([&] {
    CHECK_OK(gpu.context.per_thread_stream().enqueue(ns(30)));
    CHECK_EQ(*gpu.context.per_thread_stream().tail().instant(), at(30));
  }).join();
  // Their threads are gone, their work is not.
  CHECK_OK(gpu.context.legacy_stream().enqueue(ns(1)));
  CHECK_EQ(*gpu.context.legacy_stream().tail().instant(), at(101));
}

TEST(a_destroyed_stream_s_work_is_done_all_the_same) {
  Manual gpu;
  const auto waiter = gpu.stream();
  const auto event = gpu.event();
  auto stream = gpu.context.create_stream();
  CHECK_OK(stream->enqueue(ns(100)));
  CHECK_OK(stream->record(event));
  CHECK_OK(stream->enqueue(ns(50)));
  stream.reset();
  CHECK_OK(waiter->wait(event));
  CHECK_EQ(*waiter->tail().instant(), at(100));
  CHECK_OK(gpu.context.legacy_stream().enqueue(ns(1)));
  CHECK_EQ(*gpu.context.legacy_stream().tail().instant(), at(151));
  CHECK_OK(gpu.context.synchronize());
  CHECK_EQ(gpu.clock.now(), at(151));
}

TEST(a_destroyed_stream_may_be_pending) {
  Manual gpu;
  Collective collective;
  auto stream = gpu.stream();
  CHECK_OK(stream->submit(collective.work()));
  stream.reset();
  std::thread late([&] { collective.end.resolve(at(90)); });
  CHECK_OK(gpu.context.synchronize());
  CHECK_EQ(gpu.clock.now(), at(90));
  late.join();
}

TEST(contexts_are_apart_but_for_their_events) {
  Manual gpu;
  Context peer(test_machine(), 1, gpu.clock);
  const auto here = gpu.context.create_stream();
  const auto there = peer.create_stream();
  const auto event = gpu.event();
  CHECK_OK(here->enqueue(ns(100)));
  CHECK_OK(here->record(event));
  CHECK_OK(peer.legacy_stream().enqueue(ns(1)));
  CHECK_EQ(*peer.legacy_stream().tail().instant(), at(1));
  CHECK_OK(there->wait(event));
  CHECK_OK(there->enqueue(ns(5)));
  CHECK_EQ(*there->tail().instant(), at(105));
}

TEST(priorities_and_flags_are_kept) {
  Manual gpu;
  const auto stream = gpu.context.create_stream({.blocking = false, .priority = -3});
  CHECK_EQ(stream->priority(), -3);
  CHECK(!stream->blocking());
  CHECK(gpu.context.legacy_stream().blocking());
  CHECK(gpu.context.create_event({.interprocess = true})->options().interprocess);
  CHECK(stream->id() != gpu.stream()->id());
}

TEST(what_no_stream_can_do_is_refused) {
  Manual gpu;
  const auto stream = gpu.stream();
  CHECK_EQ(stream->enqueue(ns(-1)), Status::kInvalidValue);
  CHECK_EQ(stream->submit(EventRecordWork{gpu.event()}), Status::kInvalidValue);
  CHECK_EQ(stream->record(gpu.event(), EventScope::kExternal), Status::kInvalidValue);
  CHECK_EQ(stream->wait(gpu.event(), EventScope::kExternal), Status::kInvalidValue);
  CHECK_EQ(*stream->tail().instant(), at(0));
}
