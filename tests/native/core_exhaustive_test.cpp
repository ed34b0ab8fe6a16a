// Every state that the core can reach when three actors of two members run small programs and
// anything may come between: early leaves, a crash, a hold, lost requests and updates, host time.
// Each advance is compared with the specification in its plainest form (`expected_advance`), each
// state with invariants T1 to T4 and T9. The last section breaks the core on purpose.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/native/check.hpp"
#include "timekeeper/core/core.hpp"

namespace warpserve {
namespace {

VirtualTime at(std::int64_t ns) {
  return VirtualTime::from_ns(ns);
}

// --- the core, and ways to break it -------------------------------------------------------------

enum class Mutation : std::uint8_t {
  kNone,
  kGoesBack,
  kOvershoots,
  kWakesEarly,
  kNeverWakes,
  kForgetsRequests,
  kKeepsTheDead,
  kIgnoresHolds,
};

// The core itself, or with one thing wrong.
class CoreUnderTest : public Core {
 public:
  CoreUnderTest(ClockMode mode, GuardKind guard, Mutation mutation)
      : Core(mode, guard), mutation_(mutation) {}
  auto operator<=>(const CoreUnderTest&) const = default;

  std::optional<Advance> advance(bool settled) {
    if (mutation_ == Mutation::kNeverWakes) return std::nullopt;
    const VirtualTime before = now();
    auto advance = Core::advance(settled);
    if (!advance) return advance;
    if (mutation_ == Mutation::kGoesBack) advance->to = at(-1);
    if (mutation_ == Mutation::kOvershoots) advance->to = advance->to + VirtualDuration::from_ns(1);
    if (mutation_ == Mutation::kWakesEarly) advance->to = before;
    return advance;
  }

  CoreStatus wait_until(ActorId actor, VirtualTime target) {
    const CoreStatus status = Core::wait_until(actor, target);
    const bool forget = mutation_ == Mutation::kForgetsRequests && status == CoreStatus::kOk;
    return forget ? Core::cancel(actor) : status;
  }

  std::vector<ActorId> remove_member(MemberId member) {
    if (mutation_ == Mutation::kKeepsTheDead) return {};
    return Core::remove_member(member);
  }

  std::optional<HoldId> add_hold(MemberId member) {
    const auto hold = Core::add_hold(member);
    if (mutation_ == Mutation::kIgnoresHolds && hold) (void)Core::release(*hold);
    return hold;
  }

  CoreStatus release(HoldId hold) {
    return mutation_ == Mutation::kIgnoresHolds ? CoreStatus::kOk : Core::release(hold);
  }

 private:
  Mutation mutation_;
};

// --- the world around the core ------------------------------------------------------------------

constexpr std::size_t kActors = 3;
constexpr std::size_t kMembers = 2;
constexpr std::int64_t kLastTarget = 5;

struct Program {
  std::size_t member;
  ActorKind kind;
  ActorPlace place;
  std::uint64_t order;
  std::vector<std::int64_t> targets;  // one in the past, ties, and all orders between actors
};

const std::array<Program, kActors>& programs() {
  static const std::array<Program, kActors> all{{
      {0, ActorKind::kActor, ActorPlace::kHere, 2, {2, 1, kLastTarget}},
      {1, ActorKind::kActor, ActorPlace::kRemote, 1, {2, 4}},
      {1, ActorKind::kObserver, ActorPlace::kHere, 1, {4}},
  }};
  return all;
}

enum class Doing : std::uint8_t {
  kRunning,
  kAskedInVain,  // its request was lost; it waits for an answer
  kWaiting,      // the core has its target
  kWoken,        // the update is on its way
  kUpdateLost,   // it does not know yet that it was woken
  kEnded,        // removed, or dead
};

struct ActorState {
  ActorId id;
  Doing doing = Doing::kRunning;
  std::size_t step = 0;
  auto operator<=>(const ActorState&) const = default;
};

// What may still go wrong.
struct Budget {
  int leaves = 1;
  int crashes = 1;
  int holds = 1;
  int losses = 1;
  auto operator<=>(const Budget&) const = default;
};

struct World {
  CoreUnderTest core;
  ClockMode mode;
  GuardKind guard;
  VirtualTime now;
  std::array<MemberId, kMembers> members;
  std::array<bool, kMembers> alive{true, true};
  std::array<ActorState, kActors> actors;
  std::optional<HoldId> hold;  // the first member's
  Budget budget;
  auto operator<=>(const World&) const = default;

  World(ClockMode clock_mode, GuardKind guard_kind, Mutation mutation)
      : core(clock_mode, guard_kind, mutation), mode(clock_mode), guard(guard_kind) {
    for (auto& member : members) member = core.add_member("member");
    for (std::size_t i = 0; i < kActors; ++i) {
      const Program& p = programs()[i];
      actors[i].id = core.add_actor({.member = members[p.member],
                                     .name = "actor",
                                     .kind = p.kind,
                                     .place = p.place,
                                     .order = p.order})
                         .value();
    }
  }

  VirtualTime target(std::size_t actor) const {
    return at(programs()[actor].targets[actors[actor].step]);
  }
  bool has_steps(std::size_t actor) const {
    return actors[actor].step < programs()[actor].targets.size();
  }
  bool is(std::size_t actor, Doing doing) const { return actors[actor].doing == doing; }

  // Every thread on this host sleeps. A message on its way to one leaves it able to run.
  bool settled() const {
    for (std::size_t i = 0; i < kActors; ++i) {
      const bool here = programs()[i].place == ActorPlace::kHere;
      if (here && (is(i, Doing::kRunning) || is(i, Doing::kWoken))) return false;
    }
    return true;
  }
};

// The specification: who is woken when, from the world's own record of who waits.
std::optional<Advance> expected_advance(const World& world, bool settled) {
  std::vector<std::size_t> queue;
  std::size_t registered = 0;
  std::size_t without_target = 0;
  std::size_t remote_without_target = 0;
  for (std::size_t i = 0; i < kActors; ++i) {
    const bool waiting = world.is(i, Doing::kWaiting);
    if (waiting) queue.push_back(i);
    if (programs()[i].kind != ActorKind::kActor || world.is(i, Doing::kEnded)) continue;
    ++registered;
    if (waiting) continue;
    ++without_target;
    if (programs()[i].place == ActorPlace::kRemote) ++remote_without_target;
  }
  if (queue.empty()) return std::nullopt;
  std::sort(queue.begin(), queue.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(world.target(a), programs()[a].order, world.actors[a].id) <
           std::tuple(world.target(b), programs()[b].order, world.actors[b].id);
  });
  const VirtualTime first = world.target(queue.front());
  const bool carried_there = world.mode != ClockMode::kExact && first <= world.now;
  const bool all_have_targets = world.guard == GuardKind::kBarrier
                                    ? registered > 0 && without_target == 0
                                    : settled && remote_without_target == 0;
  const bool guard_holds = all_have_targets && !world.hold && world.mode != ClockMode::kSleep;
  if (!carried_there && !guard_holds) return std::nullopt;

  Advance advance{std::max(world.now, first), {}};
  for (const std::size_t i : queue) {
    const bool together = world.guard == GuardKind::kBarrier && world.target(i) <= advance.to;
    if (advance.woken.empty() || together) advance.woken.push_back(world.actors[i].id);
  }
  return advance;
}

// --- the exploration ----------------------------------------------------------------------------

struct Violation {
  std::string what;
};

void require(bool condition, const char* what) {
  if (!condition) throw Violation{what};
}

class Explorer {
 public:
  // Returns the violated property, or an empty text. `states` is how many were visited.
  std::string explore(ClockMode mode, GuardKind guard, Mutation mutation) {
    try {
      visit(World(mode, guard, mutation));
      while (!queue_.empty()) {
        const World& world = *queue_.front();
        queue_.pop_front();
        check_state(world);
        const bool goes_on = take_what_must_happen(world);
        require(goes_on || nobody_can_be_woken(world), "T4: a wake-up is lost");
        take_what_may_happen(world);
      }
    } catch (const Violation& violation) {
      return violation.what;
    }
    return "";
  }

  std::size_t states() const { return seen_.size(); }

 private:
  void visit(World world) {
    const auto [it, is_new] = seen_.insert(std::move(world));
    if (is_new) queue_.push_back(&*it);
  }

  // Whoever has a target in the core is who waits, and time is where it was left.
  static void check_state(const World& world) {
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < kActors; ++i) {
      const bool waits = world.is(i, Doing::kWaiting);
      waiting += waits;
      const auto target = world.core.target(world.actors[i].id);
      require(waits ? target == world.target(i) : !target.has_value(), "a target differs");
    }
    require(world.core.waiting() == waiting, "T9: a target of nobody is pending");
    require(world.core.now() == world.now, "T1: time moved without an advance");
  }

  // Nothing goes on by itself only where all have ended, or where the barrier, by its definition,
  // waits for an actor to come: observers alone never move time.
  static bool nobody_can_be_woken(const World& world) {
    bool actors_left = false;
    bool observers_left = false;
    for (std::size_t i = 0; i < kActors; ++i) {
      if (world.is(i, Doing::kEnded)) continue;
      (programs()[i].kind == ActorKind::kActor ? actors_left : observers_left) = true;
    }
    return !actors_left && (!observers_left || world.guard == GuardKind::kBarrier);
  }

  // What happens sooner or later: the actors' own steps, deliveries, retries, releases, advances
  // and host time. Each brings the programs closer to their end, so that a state without any is
  // where every run ends. Returns whether there is any.
  bool take_what_must_happen(const World& world) {
    const std::size_t before = successors_;
    for (std::size_t i = 0; i < kActors; ++i) take_step(world, i);
    if (world.hold) {
      to_successor(world, [](World& w) {
        require(w.core.release(*w.hold) == CoreStatus::kOk, "a hold cannot be released");
        w.hold.reset();
      });
    }
    if (world.mode != ClockMode::kExact && world.now < at(kLastTarget)) {
      to_successor(world, [](World& w) {
        w.now = w.now + VirtualDuration::from_ns(1);
        w.core.carry(w.now);
      });
    }
    take_advance(world, world.settled());
    return successors_ != before;
  }

  void take_step(const World& world, std::size_t i) {
    switch (world.actors[i].doing) {
      case Doing::kRunning:
        world.has_steps(i) ? ask(world, i) : leave_for_good(world, i);
        break;
      case Doing::kAskedInVain:
        ask(world, i);
        break;
      case Doing::kWaiting:
        check_changes_nothing(world, [i](World& w) {
          const auto again = w.core.wait_until(w.actors[i].id, at(0));
          require(again == CoreStatus::kAlreadyWaiting, "a repeated request is taken twice");
        });
        break;
      case Doing::kWoken:
        to_successor(world, [i](World& w) {
          require(w.now >= w.target(i), "T3: woken before the target");
          go_on(w, i);
        });
        break;
      case Doing::kUpdateLost:
        to_successor(world, [i](World& w) {
          const auto cancelled = w.core.cancel(w.actors[i].id);
          require(cancelled == CoreStatus::kNotWaiting, "T4: the core forgot whom it woke");
          go_on(w, i);
        });
        break;
      case Doing::kEnded:
        break;
    }
  }

  void ask(const World& world, std::size_t i) {
    to_successor(world, [i](World& w) {
      const auto asked = w.core.wait_until(w.actors[i].id, w.target(i));
      require(asked == CoreStatus::kOk, "a request is refused");
      w.actors[i].doing = Doing::kWaiting;
    });
  }

  void leave_for_good(const World& world, std::size_t i) {
    to_successor(world, [i](World& w) {
      require(w.core.remove_actor(w.actors[i].id) == CoreStatus::kOk, "an actor cannot leave");
      w.actors[i].doing = Doing::kEnded;
    });
  }

  static void go_on(World& world, std::size_t i) {
    world.actors[i].doing = Doing::kRunning;
    ++world.actors[i].step;
  }

  void take_advance(const World& world, bool settled) {
    const auto expected = expected_advance(world, settled);
    const bool possible = world.core.blocker(settled) == Blocker::kNothing;
    require(possible == expected.has_value(), "the blocker contradicts the specification");
    if (world.guard == GuardKind::kBarrier) {
      require(world.core.blocker(!settled) == world.core.blocker(settled),
              "the barrier looks at threads");
    }
    World next = world;
    const auto advance = next.core.advance(settled);
    if (advance) check_advance(world, *advance);
    require(advance == expected, "the advance is not the specified one");
    if (!advance) return;
    next.now = advance->to;
    for (const ActorId woken : advance->woken) {
      for (auto& actor : next.actors) {
        if (actor.id == woken) actor.doing = Doing::kWoken;
      }
    }
    ++successors_;
    visit(std::move(next));
  }

  static void check_advance(const World& world, const Advance& advance) {
    require(advance.to >= world.now, "T1: time goes back");
    for (std::size_t i = 0; i < kActors; ++i) {
      if (!world.is(i, Doing::kWaiting)) continue;
      require(advance.to <= std::max(world.now, world.target(i)), "T2: beyond a pending target");
    }
    for (const ActorId woken : advance.woken) {
      bool was_waiting = false;
      for (std::size_t i = 0; i < kActors; ++i) {
        if (world.actors[i].id != woken) continue;
        was_waiting = world.is(i, Doing::kWaiting);
        require(world.target(i) <= advance.to, "T3: woken before the target");
      }
      require(was_waiting, "T9: woken who does not wait, or is dead");
    }
  }

  // What may happen, as long as the budget lasts.
  void take_what_may_happen(const World& world) {
    for (std::size_t i = 0; i < kActors; ++i) {
      if (world.budget.leaves > 0) leave_early(world, i);
      if (world.budget.losses > 0) lose_a_message(world, i);
    }
    for (std::size_t m = 0; m < kMembers; ++m) {
      if (world.budget.crashes > 0 && world.alive[m]) crash(world, m);
    }
    if (world.budget.holds > 0 && world.alive[0]) {
      to_successor(world, [](World& w) {
        --w.budget.holds;
        w.hold = w.core.add_hold(w.members[0]);
        require(w.hold.has_value(), "a hold is refused");
      });
    }
  }

  // Something else ended the wait; the update may be on its way all the same.
  void leave_early(const World& world, std::size_t i) {
    if (!world.is(i, Doing::kWaiting) && !world.is(i, Doing::kWoken)) return;
    to_successor(world, [i](World& w) {
      --w.budget.leaves;
      const auto expected = w.is(i, Doing::kWaiting) ? CoreStatus::kOk : CoreStatus::kNotWaiting;
      require(w.core.cancel(w.actors[i].id) == expected, "a cancellation is answered wrongly");
      go_on(w, i);
    });
  }

  void lose_a_message(const World& world, std::size_t i) {
    if (programs()[i].place != ActorPlace::kRemote) return;
    const bool asks = world.is(i, Doing::kRunning) && world.has_steps(i);
    if (!asks && !world.is(i, Doing::kWoken)) return;
    to_successor(world, [i, asks](World& w) {
      --w.budget.losses;
      w.actors[i].doing = asks ? Doing::kAskedInVain : Doing::kUpdateLost;
    });
  }

  void crash(const World& world, std::size_t m) {
    to_successor(world, [m](World& w) {
      --w.budget.crashes;
      w.alive[m] = false;
      std::vector<ActorId> were_waiting;
      for (std::size_t i = 0; i < kActors; ++i) {
        if (programs()[i].member != m) continue;
        if (w.is(i, Doing::kWaiting)) were_waiting.push_back(w.actors[i].id);
        w.actors[i].doing = Doing::kEnded;
      }
      require(w.core.remove_member(w.members[m]) == were_waiting, "T9: the dead are not named");
      if (m == 0) w.hold.reset();
    });
  }

  template <class Event>
  void to_successor(const World& world, Event event) {
    World next = world;
    event(next);
    ++successors_;
    visit(std::move(next));
  }

  // An event that must change nothing.
  template <class Event>
  void check_changes_nothing(const World& world, Event event) {
    World next = world;
    event(next);
    require(next == world, "what must change nothing changed something");
  }

  std::set<World> seen_;
  std::deque<const World*> queue_;
  std::size_t successors_ = 0;
};

constexpr std::array kModes{ClockMode::kExact, ClockMode::kLive, ClockMode::kSleep};
constexpr std::array kGuards{GuardKind::kSettle, GuardKind::kBarrier};

TEST(every_reachable_state_keeps_the_invariants) {
  for (const ClockMode mode : kModes) {
    for (const GuardKind guard : kGuards) {
      Explorer explorer;
      CHECK_EQ(explorer.explore(mode, guard, Mutation::kNone), "");
      CHECK(explorer.states() > 1'000);
    }
  }
}

// --- the test can fail --------------------------------------------------------------------------

// The first violation in any mode under any guard.
std::string violation_of(Mutation mutation) {
  for (const ClockMode mode : kModes) {
    for (const GuardKind guard : kGuards) {
      const std::string violation = Explorer().explore(mode, guard, mutation);
      if (!violation.empty()) return violation;
    }
  }
  return "";
}

TEST(mutations_of_the_core_are_found) {
  CHECK_EQ(violation_of(Mutation::kGoesBack), "T1: time goes back");
  CHECK_EQ(violation_of(Mutation::kOvershoots), "T2: beyond a pending target");
  CHECK_EQ(violation_of(Mutation::kWakesEarly), "T3: woken before the target");
  CHECK_EQ(violation_of(Mutation::kNeverWakes), "the advance is not the specified one");
  CHECK_EQ(violation_of(Mutation::kForgetsRequests), "a target differs");
  CHECK_EQ(violation_of(Mutation::kKeepsTheDead), "T9: the dead are not named");
  CHECK_EQ(violation_of(Mutation::kIgnoresHolds), "the blocker contradicts the specification");
}

}  // namespace
}  // namespace warpserve
