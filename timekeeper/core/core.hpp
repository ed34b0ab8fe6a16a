// The Timekeeper's decisions: a state machine without I/O, threads or clocks of its own.
//
// It knows members (processes), their actors (whoever waits for an instant), the pending targets
// and the holds. It is told what happened and asked how far time may go; the answer is a pure
// function of what it was told (invariants T1 to T4 and T9, docs/invariants.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "timekeeper/core/types.hpp"

namespace warpserve {

struct MemberId {
  std::uint32_t value = 0;
  auto operator<=>(const MemberId&) const = default;
};
struct ActorId {
  std::uint32_t value = 0;
  auto operator<=>(const ActorId&) const = default;
};
struct HoldId {
  std::uint32_t value = 0;
  auto operator<=>(const HoldId&) const = default;
};

enum class ActorKind : std::uint8_t {
  kActor,     // the barrier waits for it
  kObserver,  // its waits are targets too, but the barrier does not wait for it
};

enum class ActorPlace : std::uint8_t {
  kHere,    // on this host: `settled` covers its thread
  kRemote,  // elsewhere: under settle, too, time waits until it has a target
};

struct ActorSpec {
  MemberId member;
  std::string name;
  ActorKind kind = ActorKind::kActor;
  ActorPlace place = ActorPlace::kHere;
  std::uint64_t order = 0;  // resolves ties at one instant, then the ActorId does
  auto operator<=>(const ActorSpec&) const = default;
};

enum class CoreStatus : std::uint8_t {
  kOk,
  kUnknownMember,
  kUnknownActor,
  kUnknownHold,
  kAlreadyWaiting,
  kNotWaiting,
};

// Time goes to `to` (possibly where it is), and exactly `woken` are woken, in this order.
struct Advance {
  VirtualTime to;
  std::vector<ActorId> woken;
  bool operator==(const Advance&) const = default;
};

// Why time stands still although it was asked to go on; for `status` and the stall report.
enum class Blocker : std::uint8_t {
  kNothing,     // an advance is possible
  kNotSettled,  // a thread can run
  kHeld,        // a hold is out
  kActorWithoutTarget,
  kNoTarget,  // nobody waits for an instant
  kHostTime,  // kSleep: the next target is ahead, and only host time goes there
};

class Core {
 public:
  Core(ClockMode mode, GuardKind guard) : mode_(mode), guard_(guard) {}

  MemberId add_member(std::string name);
  // The member has died or left: its actors, targets and holds go with it. Returns the actors that
  // were waiting, in order of their ids.
  std::vector<ActorId> remove_member(MemberId member);

  std::optional<ActorId> add_actor(ActorSpec spec);
  CoreStatus remove_actor(ActorId actor);

  // A target that has passed already is due at once: the next advance wakes it and moves nothing.
  // VirtualTime::max() is never: time does not go there.
  [[nodiscard]] CoreStatus wait_until(ActorId actor, VirtualTime target);
  [[nodiscard]] CoreStatus cancel(ActorId actor);

  std::optional<HoldId> add_hold(MemberId member);
  [[nodiscard]] CoreStatus release(HoldId hold);

  // Host time has carried virtual time to `now`. Never moves it back. Nothing in kExact, where no
  // host time enters (T6).
  void carry(VirtualTime now);

  // How far may time go, and who is woken? `settled`: every thread on this host sleeps. Applies
  // what it returns: the woken have no target afterwards. Nothing where the guard does not hold.
  //
  // Under settle one actor is woken at a time, so that what follows from it has settled before
  // the next one of the same instant; under barrier all that are due are woken together.
  //
  // The guard decides whether time may move or an instant may go on. Where host time itself has
  // reached a target (kLive, kSleep), its actor is woken whatever the guard says: a wait of 10 ms
  // ends after 10 ms of host time though others still run. kSleep moves time in no other way.
  std::optional<Advance> advance(bool settled);

  Blocker blocker(bool settled) const;

  VirtualTime now() const { return now_; }
  std::size_t waiting() const;
  // The earliest instant that anybody waits for; nothing where that is never.
  std::optional<VirtualTime> next_target() const;
  std::optional<VirtualTime> target(ActorId actor) const;

  // Equal cores answer every question alike; the tests enumerate reachable states by value.
  auto operator<=>(const Core&) const = default;

 private:
  struct Actor {
    ActorSpec spec;
    std::optional<VirtualTime> target;
    auto operator<=>(const Actor&) const = default;
  };
  // The order in which actors are woken.
  struct Pending {
    VirtualTime target;
    std::uint64_t order = 0;
    ActorId actor;
    auto operator<=>(const Pending&) const = default;
  };
  // What the guards ask of the actors of ActorKind::kActor, kept up to date so that a round costs
  // the same for a thousand actors as for one.
  struct Census {
    std::int64_t registered = 0;
    std::int64_t without_target = 0;
    std::int64_t remote_without_target = 0;
    auto operator<=>(const Census&) const = default;
  };

  void count_registered(const ActorSpec& spec, int change);
  void count_without_target(const ActorSpec& spec, int change);
  void set_target(ActorId id, Actor& actor, VirtualTime target);
  void clear_target(ActorId id, Actor& actor);
  void erase_actor(std::map<ActorId, Actor>::iterator it);
  bool host_time_has_reached_a_target() const;
  Blocker guard_blocker(bool settled) const;
  ActorId wake_first();
  template <class Id, class Value>
  Id fresh_id(const std::map<Id, Value>& taken);

  ClockMode mode_;
  GuardKind guard_;
  VirtualTime now_;
  std::uint32_t next_id_ = 1;
  std::map<MemberId, std::string> members_;
  std::map<ActorId, Actor> actors_;
  std::map<HoldId, MemberId> holds_;
  std::set<Pending> pending_;
  Census census_;
};

}  // namespace warpserve
