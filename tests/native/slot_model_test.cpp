// All interleavings of the wake-up protocol (timekeeper/shared/slot.hpp): invariants T4 and T9.
//
// The last section breaks the protocol on purpose, once for each class of property, and requires
// the checker to find the counterexample.
#include <array>
#include <memory>
#include <vector>

#include "tests/native/check.hpp"
#include "tests/native/model_checker.hpp"
#include "timekeeper/shared/slot.hpp"

namespace warpserve {
namespace {

using model::await_end;
using model::Bounds;
using model::Ended;
using model::Execution;
using model::explore;
using model::ModelSync;
using model::Mortality;
using model::Report;
using model::require;

using Board = BasicBoard<ModelSync>;
using Listener = BasicDoorbellListener<ModelSync>;
using Owner = BasicSlotOwner<ModelSync>;
using Slot = BasicSlot<ModelSync>;
using Watcher = BasicSlotWatcher<ModelSync>;

constexpr std::uint32_t kPid = 70;
constexpr std::uint32_t kTid = 71;
constexpr std::uint32_t kNextPid = 80;
constexpr std::uint32_t kNextTid = 81;
constexpr timespec kSomeDeadline{};

VirtualTime at(std::int64_t ns) {
  return VirtualTime::from_ns(ns);
}

// What one execution shares.
struct World {
  Board board{};
  Slot slot{};
  ModelSync::Atomic<std::uint32_t> owner_ended{};
};

Owner claim(Slot& slot, SlotKind kind = SlotKind::kWait) {
  const auto owner = Owner::claim(slot, kPid, kTid, kind);
  return owner.value();
}

void check_holds(const char* file, int line, const Report& report) {
  if (!report.holds()) check::fail(file, line, report.violation);
}

void check_finds(const char* file, int line, const Report& report, std::string_view violation) {
  if (report.violation.find(violation) != std::string::npos) return;
  check::fail(file, line,
              "found no violation \"" + std::string(violation) + "\" in " +
                  std::to_string(report.executions) +
                  " executions, but: " + (report.holds() ? "nothing" : report.violation));
}

#define CHECK_HOLDS(report) check_holds(__FILE__, __LINE__, report)
#define CHECK_FINDS(report, violation) check_finds(__FILE__, __LINE__, report, violation)

// --- the slot -----------------------------------------------------------------------------------

TEST(state_word_packs_and_wraps) {
  const SlotState last{SlotPhase::kIdle, SlotState::kGenerationMask};
  CHECK(SlotState::unpack(last.pack()) == last);
  CHECK_EQ(last.armed().generation, 0U);
  CHECK_EQ(last.armed().phase, SlotPhase::kWaiting);
  for (const auto phase :
       {SlotPhase::kFree, SlotPhase::kIdle, SlotPhase::kWaiting, SlotPhase::kFired}) {
    const SlotState state{phase, 12345};
    CHECK(SlotState::unpack(state.pack()) == state);
  }
}

// Sleeps until the slot has a pending wait.
SlotView await_pending(World& world) {
  Listener listener(world.board);
  for (;;) {
    listener.listen(kListeningToAll);
    const auto view = Watcher(world.slot).snapshot();
    if (view && view->target) return *view;
    listener.wait_for_ring();
  }
}

void wait_until_fired(World& world, Owner& owner, VirtualTime target) {
  const ArmedWait wait = owner.arm(target);
  ring_if_listened_to(world.board, kTid);
  require(owner.park(wait) == Woken::kByTimekeeper, "only the Timekeeper ends the wait");
  require(owner.disarm(wait) == Disarmed::kFired, "and has fired the slot");
}

// The Timekeeper awaits each of the owner's waits and ends it with `fire`.
template <class Fire>
Report waits_are_fired(const Bounds& bounds, std::vector<std::int64_t> targets, Fire fire) {
  return explore(bounds, [&](Execution& execution) {
    auto world = std::make_shared<World>();
    Owner owner = claim(world->slot);
    execution.party("owner", [world, owner, &targets]() mutable {
      for (const std::int64_t target : targets) wait_until_fired(*world, owner, at(target));
      owner.release();
    });
    execution.party("timekeeper", [world, &targets, fire] {
      for (const std::int64_t target : targets) {
        const SlotView view = await_pending(*world);
        require(view.target == at(target), "the target is that of this wait");
        require(view.pid == kPid && view.tid == kTid, "the owner is named");
        require(fire(world->slot, view.generation), "nobody else ends the wait");
      }
    });
  });
}

constexpr auto kFire = [](Slot& slot, std::uint32_t generation) {
  return Watcher(slot).fire(generation);
};

TEST(a_wait_is_fired_once) {
  CHECK_HOLDS(waits_are_fired({}, {50}, kFire));
}

// Exhaustive would be minutes; the second wait differs from the first in what is left of it.
TEST(each_of_two_waits_is_fired_once_with_its_own_target) {
  CHECK_HOLDS(waits_are_fired({.preemptions = 3}, {50, 10}, kFire));
}

// The owner of the first wait may leave early (a deadline or another event wakes it), and waits
// again, longer. Firing the first wait must never end the second.
template <class Fire>
Report leaves_early_against(Fire fire) {
  return explore({}, [fire](Execution& execution) {
    auto world = std::make_shared<World>();
    execution.party("owner", [world] {
      Owner owner = claim(world->slot);
      const ArmedWait first = owner.arm(at(10));
      const Woken woken = owner.park(first, &kSomeDeadline);
      const Disarmed disarmed = owner.disarm(first);
      require(woken == Woken::kByHostDeadline || disarmed == Disarmed::kFired,
              "who was woken by the Timekeeper was fired");
      const ArmedWait second = owner.arm(at(20));
      require(owner.park(second, &kSomeDeadline) == Woken::kByHostDeadline,
              "the second wait is not ended by the Timekeeper");
      require(owner.disarm(second) == Disarmed::kCancelled, "nor fired");
      owner.release();
    });
    execution.party("timekeeper", [world, fire] {
      const auto view = Watcher(world->slot).snapshot();
      if (view && view->target == at(10)) fire(world->slot, view->generation);
    });
  });
}

TEST(a_late_fire_does_not_hit_the_next_arming) {
  CHECK_HOLDS(leaves_early_against(
      [](Slot& slot, std::uint32_t generation) { Watcher(slot).fire(generation); }));
}

// Each side knows who ended the wait, and they agree.
TEST(cancel_and_fire_exclude_each_other) {
  struct Outcome {
    bool fired = false;
    bool cancelled = false;
  };
  CHECK_HOLDS(explore({}, [](Execution& execution) {
    auto world = std::make_shared<World>();
    auto outcome = std::make_shared<Outcome>();
    execution.party("owner", [=] {
      Owner owner = claim(world->slot);
      const ArmedWait wait = owner.arm(at(10));
      outcome->cancelled = owner.disarm(wait) == Disarmed::kCancelled;
    });
    execution.party("timekeeper", [=] {
      const auto view = Watcher(world->slot).snapshot();
      outcome->fired = view && view->target && Watcher(world->slot).fire(view->generation);
    });
    execution.finally([=] {
      require(outcome->fired != outcome->cancelled, "exactly one side ended the wait");
      require(SlotState::unpack(world->slot.state.load()).phase == SlotPhase::kIdle, "it is idle");
    });
  }));
}

// A snapshot never mixes one wait's target with another's generation.
TEST(snapshots_are_consistent) {
  CHECK_HOLDS(explore({}, [](Execution& execution) {
    auto world = std::make_shared<World>();
    execution.party("owner", [world] {
      Owner owner = claim(world->slot);
      for (std::int64_t wait = 1; wait <= 3; ++wait) owner.disarm(owner.arm(at(wait)));
      owner.release();
    });
    execution.party("reader", [world] {
      for (int look = 0; look < 2; ++look) {
        const auto view = Watcher(world->slot).snapshot();
        require(!view || !view->target || view->target->ns() == view->generation,
                "the target belongs to the generation");
      }
    });
  }));
}

// A wait that the thread abandoned (longjmp) is left by the next one.
TEST(arming_leaves_an_abandoned_wait) {
  CHECK_HOLDS(explore({}, [](Execution& execution) {
    auto world = std::make_shared<World>();
    execution.party("owner", [world] {
      Owner owner = claim(world->slot);
      owner.arm(at(1));
      const ArmedWait second = owner.arm(at(2));
      require(owner.disarm(second) == Disarmed::kCancelled, "the abandoned wait alone was fired");
    });
    execution.party("timekeeper", [world] {
      const auto view = Watcher(world->slot).snapshot();
      if (!view || !view->target || view->generation != 1) return;
      require(view->target == at(1), "the target is that of the abandoned wait");
      Watcher(world->slot).fire(view->generation);
    });
  }));
}

TEST(a_slot_has_one_owner) {
  CHECK_HOLDS(explore({}, [](Execution& execution) {
    auto world = std::make_shared<World>();
    auto owners = std::make_shared<std::array<bool, 2>>();
    for (std::uint32_t i = 0; i < 2; ++i) {
      execution.party("claimant " + std::to_string(i), [=] {
        (*owners)[i] = Owner::claim(world->slot, kPid + i, kTid + i, SlotKind::kWait).has_value();
      });
    }
    execution.finally([=] {
      require((*owners)[0] != (*owners)[1], "exactly one claim succeeded");
      const std::uint32_t winner = (*owners)[0] ? 0 : 1;
      require(world->slot.pid.load() == kPid + winner, "the slot names its owner");
      require(world->slot.tid.load() == kTid + winner, "and its thread");
    });
  }));
}

// --- the death of the owner (T9) ----------------------------------------------------------------

// The owner dies at any moment of its life, or lives. The slot then serves the next owner, whom
// nothing meant for the dead one can wake.
template <class Reclaim>
Report owner_dies(Reclaim reclaim) {
  return explore({}, [reclaim](Execution& execution) {
    auto world = std::make_shared<World>();
    const auto mortal = execution.party(
        "owner",
        [world] {
          Owner owner = claim(world->slot);
          const ArmedWait wait = owner.arm(at(10));
          owner.park(wait, &kSomeDeadline);
          owner.disarm(wait);
          owner.release();
        },
        Mortality::kMortal);
    execution.party("timekeeper", [world, mortal, reclaim] {
      const auto view = Watcher(world->slot).snapshot();
      if (await_end(mortal) == Ended::kDied) reclaim(world->slot);
      const auto next = Owner::claim(world->slot, kNextPid, kNextTid, SlotKind::kWait);
      require(next.has_value(), "the slot is free after its owner's end");
      Owner owner = *next;
      const ArmedWait wait = owner.arm(at(20));
      if (view && view->target) Watcher(world->slot).fire(view->generation);
      require(owner.pending(wait), "a fire for the dead does not wake the living");
      require(!Watcher(world->slot).reclaim(kPid), "nor does the dead one's reclaim free its slot");
    });
  });
}

TEST(the_slot_of_the_dead_is_freed_whenever_it_died) {
  CHECK_HOLDS(owner_dies([](Slot& slot) { Watcher(slot).reclaim(kPid); }));
}

// Three parties: every schedule with at most two preemptions, and the death at any moment.
TEST(firing_the_dead_harms_nobody) {
  CHECK_HOLDS(explore({.preemptions = 2}, [](Execution& execution) {
    auto world = std::make_shared<World>();
    Owner owner = claim(world->slot);
    const auto mortal = execution.party(
        "owner",
        [world, owner]() mutable {
          wait_until_fired(*world, owner, at(10));
          owner.release();
        },
        Mortality::kMortal);
    // The end of a process is heard of at its control connection.
    execution.party("control", [world, mortal] {
      await_end(mortal);
      world->owner_ended.store(1);
      ring(world->board);
    });
    execution.party("timekeeper", [world, mortal] {
      Listener listener(world->board);
      for (;;) {
        listener.listen(kListeningToAll);
        if (world->owner_ended.load() == 1) break;
        const auto view = Watcher(world->slot).snapshot();
        if (view && view->target) {
          Watcher(world->slot).fire(view->generation);
        } else {
          listener.wait_for_ring();
        }
      }
      if (await_end(mortal) == Ended::kDied) Watcher(world->slot).reclaim(kPid);
      require(!Watcher(world->slot).snapshot().has_value(), "the slot is free in the end");
      require(world->slot.pid.load() == 0, "and may be claimed");
    });
  }));
}

// --- the doorbell -------------------------------------------------------------------------------

// Members go to sleep (each sets its word first) and the Timekeeper wants to know of all of them.
template <class Await>
Report members_go_to_sleep(std::size_t members, const Bounds& bounds, Await await_asleep) {
  struct Sleepers {
    Board board{};
    std::array<ModelSync::Atomic<std::uint32_t>, 2> asleep{};
  };
  return explore(bounds, [=](Execution& execution) {
    auto world = std::make_shared<Sleepers>();
    for (std::size_t i = 0; i < members; ++i) {
      execution.party("member " + std::to_string(i), [world, i] {
        world->asleep[i].store(1);
        ring_if_listened_to(world->board, static_cast<std::uint32_t>(kTid + i));
      });
    }
    execution.party("timekeeper", [world, members, await_asleep] {
      for (std::size_t i = 0; i < members; ++i) {
        await_asleep(world->board, static_cast<std::uint32_t>(kTid + i),
                     [&] { return world->asleep[i].load() == 1; });
      }
    });
  });
}

constexpr auto kListenLookWait = [](Board& board, std::uint32_t tid, auto happened) {
  Listener listener(board);
  for (;;) {
    listener.listen(tid);
    if (happened()) return;
    listener.wait_for_ring();
  }
};

TEST(no_ring_of_one_member_is_lost) {
  CHECK_HOLDS(members_go_to_sleep(1, {}, kListenLookWait));
}

TEST(no_ring_of_two_members_is_lost) {
  CHECK_HOLDS(members_go_to_sleep(2, {}, kListenLookWait));
}

// Both members ring at most once each, so four preemptions reach every order of listening, looking
// and the two rings.
TEST(bounded_and_reduced_exploration_agree) {
  CHECK_HOLDS(members_go_to_sleep(2, {.preemptions = 4}, kListenLookWait));
}

TEST(a_listener_is_woken_by_those_it_listens_to_only) {
  CHECK_HOLDS(explore({}, [](Execution& execution) {
    auto world = std::make_shared<World>();
    execution.party("another", [world] { ring_if_listened_to(world->board, kNextTid); });
    execution.party("timekeeper", [world] {
      Listener listener(world->board);
      listener.listen(kTid);
      require(!listener.wait_for_ring(&kSomeDeadline), "only the deadline ends the wait");
    });
  }));
}

// --- the tests can fail -------------------------------------------------------------------------

TEST(mutation_firing_without_the_generation_is_found) {
  CHECK_FINDS(leaves_early_against([](Slot& slot, std::uint32_t) {
                const auto state = SlotState::unpack(slot.state.load());
                if (state.phase != SlotPhase::kWaiting) return;
                Watcher(slot).fire(state.generation);
              }),
              "nor fired");
}

TEST(mutation_firing_without_a_wake_is_found) {
  CHECK_FINDS(waits_are_fired({}, {50},
                              [](Slot& slot, std::uint32_t generation) {
                                const SlotState waiting{SlotPhase::kWaiting, generation};
                                slot.state.store(waiting.in(SlotPhase::kFired).pack());
                                return true;
                              }),
              "owner waits forever");
}

TEST(mutation_waking_before_firing_is_found) {
  CHECK_FINDS(waits_are_fired({}, {50},
                              [](Slot& slot, std::uint32_t generation) {
                                const SlotState waiting{SlotPhase::kWaiting, generation};
                                ModelSync::wake(slot.state, 1);
                                slot.state.store(waiting.in(SlotPhase::kFired).pack());
                                return true;
                              }),
              "owner waits forever");
}

TEST(mutation_firing_by_store_is_found) {
  CHECK_FINDS(leaves_early_against([](Slot& slot, std::uint32_t generation) {
                slot.state.store(SlotState{SlotPhase::kFired, generation}.pack());
                ModelSync::wake(slot.state, 1);
              }),
              "a wait was ended by neither its owner nor the Timekeeper");
}

TEST(mutation_reclaiming_only_what_is_not_free_is_found) {
  CHECK_FINDS(owner_dies([](Slot& slot) {
                if (Watcher(slot).snapshot()) Watcher(slot).reclaim(kPid);
              }),
              "the slot is free after its owner's end");
}

TEST(mutation_reclaiming_with_a_new_generation_is_found) {
  CHECK_FINDS(owner_dies([](Slot& slot) {
                if (!Watcher(slot).reclaim(kPid)) return;
                slot.state.store(SlotState{}.pack());
              }),
              "a fire for the dead does not wake the living");
}

TEST(mutation_looking_before_listening_is_found) {
  CHECK_FINDS(members_go_to_sleep(1, {},
                                  [](Board& board, std::uint32_t tid, auto happened) {
                                    if (happened()) return;
                                    Listener listener(board);
                                    listener.listen(tid);
                                    listener.wait_for_ring();
                                  }),
              "timekeeper waits forever");
}

TEST(mutation_a_bounded_exploration_finds_it_with_one_preemption) {
  CHECK_FINDS(members_go_to_sleep(1, {.preemptions = 1},
                                  [](Board& board, std::uint32_t tid, auto happened) {
                                    if (happened()) return;
                                    Listener listener(board);
                                    listener.listen(tid);
                                    listener.wait_for_ring();
                                  }),
              "timekeeper waits forever");
}

TEST(mutation_reading_the_ring_counter_after_looking_is_found) {
  CHECK_FINDS(members_go_to_sleep(1, {},
                                  [](Board& board, std::uint32_t tid, auto happened) {
                                    board.listening.store(tid);
                                    while (!happened()) {
                                      ModelSync::wait(board.rings, board.rings.load());
                                    }
                                  }),
              "timekeeper waits forever");
}

TEST(mutation_an_inconsistent_snapshot_is_found) {
  CHECK_FINDS(explore({},
                      [](Execution& execution) {
                        auto world = std::make_shared<World>();
                        execution.party("owner", [world] {
                          Owner owner = claim(world->slot);
                          for (std::int64_t wait = 1; wait <= 2; ++wait) {
                            owner.disarm(owner.arm(at(wait)));
                          }
                        });
                        execution.party("reader", [world] {
                          const auto state = SlotState::unpack(world->slot.state.load());
                          if (state.phase != SlotPhase::kWaiting) return;
                          require(world->slot.target_ns.load() == state.generation,
                                  "the target belongs to the generation");
                        });
                      }),
              "the target belongs to the generation");
}

}  // namespace
}  // namespace warpserve
