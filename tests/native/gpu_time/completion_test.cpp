#include "cuda_shim/time/completion.hpp"

#include <string>
#include <thread>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

TEST(a_known_end_is_arithmetic) {
  const Completion end = Completion::at(at(10)).after(ns(5)).not_before(at(12)).after(ns(1));
  CHECK_EQ(*end.instant(), at(16));
  CHECK_EQ(*latest(end, Completion::at(at(20))).instant(), at(20));
  CHECK(end.reached(at(16)));
  CHECK(!end.reached(at(15)));
}

TEST(what_follows_from_a_pending_end_is_pending_until_it_resolves) {
  const CompletionSource source;
  const Completion pending = source.completion();
  const Completion later = pending.after(ns(5)).not_before(at(100)).after(ns(7));
  const Completion joined = latest(later, Completion::at(at(30)).after(ns(80)));
  CHECK(!later.known());
  CHECK(!joined.reached(VirtualTime::max()));
  CHECK(source.resolve(at(90)));
  CHECK_EQ(*pending.instant(), at(90));
  CHECK_EQ(*later.instant(), at(107));
  CHECK_EQ(*joined.instant(), at(110));
}

TEST(the_latest_of_one_source_needs_no_second_one) {
  const CompletionSource source;
  const Completion a = source.completion().after(ns(5)).not_before(at(50));
  const Completion b = source.completion().after(ns(9));
  const Completion later = latest(a, b).after(ns(1));
  source.resolve(at(40));
  CHECK_EQ(*later.instant(), at(51));
}

TEST(the_latest_of_two_sources_waits_for_both_in_either_order) {
  for (const bool first_resolves_first : {true, false}) {
    const CompletionSource a;
    const CompletionSource b;
    const Completion later = latest(a.completion().after(ns(10)), b.completion()).after(ns(1));
    (first_resolves_first ? a : b).resolve(first_resolves_first ? at(100) : at(105));
    CHECK(!later.known());
    (first_resolves_first ? b : a).resolve(first_resolves_first ? at(105) : at(100));
    CHECK_EQ(*later.instant(), at(111));
  }
}

TEST(only_the_first_resolution_counts) {
  const CompletionSource source;
  const CompletionSource copy = source;
  CHECK(source.resolve(at(3)));
  CHECK(!copy.resolve(at(4)));
  CHECK_EQ(*copy.completion().instant(), at(3));
}

TEST(actions_run_in_order_and_before_the_end_is_seen) {
  const CompletionSource source;
  const Completion end = source.completion().after(ns(2));
  std::string log;
  end.when_known([&](VirtualTime instant) {
    log += "a" + std::to_string(instant.ns());
    CHECK(!end.known());
    source.completion().when_known([&](VirtualTime) { log += "c"; });
  });
  source.completion().when_known(
      [&](VirtualTime instant) { log += "b" + std::to_string(instant.ns()); });
  CHECK_EQ(log, "");
  source.resolve(at(5));
  CHECK_EQ(log, "a7b5c");
  end.when_known([&](VirtualTime) { log += "d"; });
  CHECK_EQ(log, "a7b5cd");
}

TEST(a_chain_of_any_length_resolves_without_deep_recursion) {
  const CompletionSource first;
  Completion end = first.completion();
  for (int i = 0; i < 200'000; ++i) {
    const CompletionSource next;
    end.when_known([next](VirtualTime instant) { next.resolve(instant + ns(1)); });
    end = next.completion();
  }
  first.resolve(at(1));
  CHECK_EQ(*end.instant(), at(200'001));
}

TEST(a_thread_waits_until_another_resolves_and_then_for_the_instant) {
  ManualClock clock;
  const CompletionSource source;
  std::thread other([&] { source.resolve(at(70)); });
  source.completion().after(ns(5)).await_reached(clock);
  CHECK_EQ(clock.now(), at(75));
  other.join();
}

TEST(sums_that_do_not_fit_are_never) {
  const VirtualDuration huge = VirtualTime::max() - VirtualTime();
  const CompletionSource source;
  const Completion end = source.completion().after(huge).after(huge);
  source.resolve(at(1));
  CHECK_EQ(*end.instant(), VirtualTime::max());
  CHECK_EQ(*Completion::at(at(1)).after(huge).instant(), VirtualTime::max());
}
