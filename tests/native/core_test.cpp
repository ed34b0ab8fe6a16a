// The core, case by case. core_exhaustive_test.cpp enumerates what these leave out.
#include "timekeeper/core/core.hpp"

#include <limits>

#include "tests/native/check.hpp"

namespace warpserve {
namespace {

VirtualTime at(std::int64_t ns) {
  return VirtualTime::from_ns(ns);
}
VirtualTime at_ms(std::int64_t ms) {
  return VirtualTime() + VirtualDuration::from_ms(ms);
}

// A core with one member.
struct Session {
  explicit Session(ClockMode mode, GuardKind guard)
      : core(mode, guard), member(core.add_member("member")) {}

  ActorId actor(ActorKind kind = ActorKind::kActor, std::uint64_t order = 0,
                ActorPlace place = ActorPlace::kHere) {
    return core
        .add_actor(
            {.member = member, .name = "actor", .kind = kind, .place = place, .order = order})
        .value();
  }
  void wait(ActorId actor, VirtualTime target) {
    CHECK_EQ(core.wait_until(actor, target), CoreStatus::kOk);
  }
  // Wakes `woken`, in this order, at `to`.
  void check_advance(VirtualTime to, const std::vector<ActorId>& woken, bool settled = true) {
    const auto advance = core.advance(settled);
    REQUIRE(advance.has_value());
    CHECK_EQ(advance->to, to);
    CHECK_EQ(core.now(), to);
    CHECK(advance->woken == woken);
  }
  void check_stands_still(Blocker blocker, bool settled = true) {
    const VirtualTime before = core.now();
    CHECK_EQ(core.blocker(settled), blocker);
    CHECK(!core.advance(settled).has_value());
    CHECK_EQ(core.now(), before);
  }

  Core core;
  MemberId member;
};

// --- both guards --------------------------------------------------------------------------------

TEST(barrier_wakes_at_the_minimum_of_targets_50_and_10) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto a = s.actor();
  const auto b = s.actor();
  s.wait(a, at_ms(50));
  s.check_stands_still(Blocker::kActorWithoutTarget);
  s.wait(b, at_ms(10));
  s.check_advance(at_ms(10), {b});
  s.check_stands_still(Blocker::kActorWithoutTarget);
  s.wait(b, at_ms(60));
  s.check_advance(at_ms(50), {a});
}

// While one request runs until 500 ms, another arrives at 200 ms and takes 100 ms.
TEST(barrier_stops_at_an_arrival_during_a_long_jump) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto server = s.actor();
  const auto client = s.actor();
  s.wait(server, at_ms(500));
  s.wait(client, at_ms(200));
  s.check_advance(at_ms(200), {client});
  s.wait(client, at_ms(300));
  s.check_advance(at_ms(300), {client});
  s.wait(client, at_ms(900));
  s.check_advance(at_ms(500), {server});
}

TEST(barrier_wakes_all_that_are_due_together_in_order) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto last = s.actor(ActorKind::kActor, 9);
  const auto second = s.actor(ActorKind::kActor, 5);
  const auto third = s.actor(ActorKind::kActor, 5);
  const auto past = s.actor(ActorKind::kActor, 99);
  s.wait(last, at(7));
  s.wait(third, at(7));
  s.wait(second, at(7));
  s.wait(past, at(6));
  s.check_advance(at(6), {past});
  s.wait(past, at(1));
  s.check_advance(at(6), {past});
  s.wait(past, at(7));
  s.check_advance(at(7), {second, third, last, past});
}

TEST(barrier_needs_an_actor_and_does_not_wait_for_observers) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto observer = s.actor(ActorKind::kObserver);
  s.check_stands_still(Blocker::kNoTarget);
  s.wait(observer, at(3));
  s.check_stands_still(Blocker::kActorWithoutTarget);
  const auto actor = s.actor();
  s.wait(actor, at(5));
  s.check_advance(at(3), {observer});
  s.check_advance(at(5), {actor}, false);
}

TEST(settle_wakes_one_at_a_time_in_order) {
  Session s(ClockMode::kExact, GuardKind::kSettle);
  const auto second = s.actor(ActorKind::kObserver, 2);
  const auto third = s.actor(ActorKind::kActor, 2);
  const auto first = s.actor(ActorKind::kObserver, 1);
  s.wait(third, at(4));
  s.wait(second, at(4));
  s.wait(first, at(4));
  s.check_stands_still(Blocker::kNotSettled, false);
  s.check_advance(at(4), {first});
  s.check_advance(at(4), {second});
  s.check_advance(at(4), {third});
  s.check_stands_still(Blocker::kNoTarget);
}

TEST(settle_waits_for_remote_actors_only) {
  Session s(ClockMode::kExact, GuardKind::kSettle);
  const auto here = s.actor();
  const auto idle_here = s.actor();
  s.actor(ActorKind::kObserver, 0, ActorPlace::kRemote);
  const auto remote = s.actor(ActorKind::kActor, 0, ActorPlace::kRemote);
  s.wait(here, at(5));
  s.check_stands_still(Blocker::kActorWithoutTarget);
  s.wait(remote, at(8));
  s.check_advance(at(5), {here});
  CHECK_EQ(s.core.remove_actor(idle_here), CoreStatus::kOk);
  s.check_advance(at(8), {remote});
}

TEST(holds_stop_both_guards) {
  for (const auto guard : {GuardKind::kSettle, GuardKind::kBarrier}) {
    Session s(ClockMode::kExact, guard);
    const auto actor = s.actor();
    s.wait(actor, at(5));
    const auto first = s.core.add_hold(s.member).value();
    const auto second = s.core.add_hold(s.member).value();
    s.check_stands_still(Blocker::kHeld);
    CHECK_EQ(s.core.release(first), CoreStatus::kOk);
    CHECK_EQ(s.core.release(first), CoreStatus::kUnknownHold);
    s.check_stands_still(Blocker::kHeld);
    CHECK_EQ(s.core.release(second), CoreStatus::kOk);
    s.check_advance(at(5), {actor});
  }
}

// --- targets ------------------------------------------------------------------------------------

TEST(a_target_that_has_passed_is_due_at_once_and_moves_nothing) {
  for (const auto guard : {GuardKind::kSettle, GuardKind::kBarrier}) {
    Session s(ClockMode::kExact, guard);
    const auto actor = s.actor();
    s.wait(actor, at(100));
    s.check_advance(at(100), {actor});
    s.wait(actor, at(40));
    s.check_advance(at(100), {actor});
    s.wait(actor, VirtualTime::from_ns(std::numeric_limits<std::int64_t>::min()));
    s.check_advance(at(100), {actor});
    s.wait(actor, at(100));
    s.check_advance(at(100), {actor});
  }
}

TEST(the_last_instant_can_be_reached_and_is_not_passed) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto actor = s.actor();
  const VirtualTime last = at(std::numeric_limits<std::int64_t>::max() - 1);
  s.wait(actor, last);
  s.check_advance(last, {actor});
  s.wait(actor, at(0));
  s.check_advance(last, {actor});
}

TEST(never_does_not_come) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto patient = s.actor();
  s.wait(patient, VirtualTime::max());
  s.check_stands_still(Blocker::kNoTarget);
  const auto busy = s.actor();
  s.wait(busy, at_ms(1));
  s.check_advance(at_ms(1), {busy});
}

TEST(one_target_an_actor) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto actor = s.actor();
  CHECK_EQ(s.core.cancel(actor), CoreStatus::kNotWaiting);
  s.wait(actor, at(9));
  CHECK_EQ(s.core.wait_until(actor, at(1)), CoreStatus::kAlreadyWaiting);
  CHECK_EQ(s.core.target(actor), at(9));
  CHECK_EQ(s.core.cancel(actor), CoreStatus::kOk);
  CHECK_EQ(s.core.target(actor), std::nullopt);
  CHECK_EQ(s.core.waiting(), 0U);
  s.check_stands_still(Blocker::kNoTarget);
}

TEST(the_unknown_is_named) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const ActorId nobody{12345};
  CHECK_EQ(s.core.wait_until(nobody, at(1)), CoreStatus::kUnknownActor);
  CHECK_EQ(s.core.cancel(nobody), CoreStatus::kUnknownActor);
  CHECK_EQ(s.core.remove_actor(nobody), CoreStatus::kUnknownActor);
  CHECK_EQ(s.core.release(HoldId{12345}), CoreStatus::kUnknownHold);
  CHECK(!s.core.add_hold(MemberId{12345}).has_value());
  CHECK(!s.core.add_actor({.member = MemberId{12345}, .name = "actor"}).has_value());
  CHECK(s.core.remove_member(MemberId{12345}).empty());
  CHECK_EQ(s.core.target(nobody), std::nullopt);
}

// --- death --------------------------------------------------------------------------------------

TEST(a_dead_member_takes_its_actors_targets_and_holds_with_it) {
  Session s(ClockMode::kExact, GuardKind::kBarrier);
  const auto survivor = s.actor();
  const auto dying = s.core.add_member("dying");
  const auto waiting = s.core.add_actor({.member = dying, .name = "waiting"}).value();
  s.core.add_actor({.member = dying, .name = "running"});
  s.core.add_hold(dying);
  s.wait(waiting, at(1));
  s.wait(survivor, at(2));
  s.check_stands_still(Blocker::kHeld);
  CHECK(s.core.remove_member(dying) == std::vector{waiting});
  CHECK_EQ(s.core.waiting(), 1U);
  s.check_advance(at(2), {survivor});
  CHECK_EQ(s.core.wait_until(waiting, at(3)), CoreStatus::kUnknownActor);
  CHECK(!s.core.add_hold(dying).has_value());
}

// --- host time ----------------------------------------------------------------------------------

TEST(no_host_time_enters_exact) {
  Session s(ClockMode::kExact, GuardKind::kSettle);
  s.core.carry(at(77));
  CHECK_EQ(s.core.now(), at(0));
}

TEST(carrying_never_goes_back) {
  Session s(ClockMode::kLive, GuardKind::kSettle);
  s.core.carry(at(10));
  s.core.carry(at(9));
  CHECK_EQ(s.core.now(), at(10));
}

TEST(host_time_wakes_whatever_the_guard_says) {
  for (const auto mode : {ClockMode::kLive, ClockMode::kSleep}) {
    for (const auto guard : {GuardKind::kSettle, GuardKind::kBarrier}) {
      Session s(mode, guard);
      const auto waiting = s.actor();
      s.actor();
      s.core.add_hold(s.member);
      s.wait(waiting, at(10));
      s.core.carry(at(9));
      CHECK(!s.core.advance(false).has_value());
      s.core.carry(at(12));
      s.check_advance(at(12), {waiting}, false);
    }
  }
}

TEST(live_jumps_and_sleep_does_not) {
  Session live(ClockMode::kLive, GuardKind::kSettle);
  const auto jumper = live.actor();
  live.wait(jumper, at(10));
  live.check_advance(at(10), {jumper});

  Session sleep(ClockMode::kSleep, GuardKind::kSettle);
  const auto sleeper = sleep.actor();
  sleep.wait(sleeper, at(10));
  sleep.check_stands_still(Blocker::kHostTime);
}

}  // namespace
}  // namespace warpserve
