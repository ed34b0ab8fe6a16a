// Core for Python: times are int nanoseconds, ids are ints, statuses are enumerations.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "timekeeper/bindings/bindings.hpp"
#include "timekeeper/core/core.hpp"

namespace nb = nanobind;

namespace warpserve {
namespace {

using Ids = std::vector<std::uint32_t>;

Ids values(const std::vector<ActorId>& actors) {
  Ids ids;
  std::ranges::transform(actors, std::back_inserter(ids), &ActorId::value);
  return ids;
}

template <class Id>
std::optional<std::uint32_t> value(const std::optional<Id>& id) {
  return id ? std::optional(id->value) : std::nullopt;
}

std::optional<std::uint32_t> add_actor(Core& core, std::uint32_t member, std::string name,
                                       ActorKind kind, ActorPlace place, std::uint64_t order) {
  return value(core.add_actor({.member = MemberId{member},
                               .name = std::move(name),
                               .kind = kind,
                               .place = place,
                               .order = order}));
}

std::optional<std::pair<std::int64_t, Ids>> advance(Core& core, bool settled) {
  const auto advance = core.advance(settled);
  if (!advance) return std::nullopt;
  return std::pair(advance->to.ns(), values(advance->woken));
}

std::optional<std::int64_t> target_ns(const Core& core, std::uint32_t actor) {
  const auto target = core.target(ActorId{actor});
  if (!target) return std::nullopt;
  return target->ns();
}

void bind_enumerations(nb::module_& module) {
  nb::enum_<ClockMode>(module, "ClockMode")
      .value("EXACT", ClockMode::kExact)
      .value("LIVE", ClockMode::kLive)
      .value("SLEEP", ClockMode::kSleep);
  nb::enum_<GuardKind>(module, "GuardKind")
      .value("SETTLE", GuardKind::kSettle)
      .value("BARRIER", GuardKind::kBarrier);
  nb::enum_<ActorKind>(module, "ActorKind")
      .value("ACTOR", ActorKind::kActor)
      .value("OBSERVER", ActorKind::kObserver);
  nb::enum_<ActorPlace>(module, "ActorPlace")
      .value("HERE", ActorPlace::kHere)
      .value("REMOTE", ActorPlace::kRemote);
  nb::enum_<CoreStatus>(module, "CoreStatus")
      .value("OK", CoreStatus::kOk)
      .value("UNKNOWN_MEMBER", CoreStatus::kUnknownMember)
      .value("UNKNOWN_ACTOR", CoreStatus::kUnknownActor)
      .value("UNKNOWN_HOLD", CoreStatus::kUnknownHold)
      .value("ALREADY_WAITING", CoreStatus::kAlreadyWaiting)
      .value("NOT_WAITING", CoreStatus::kNotWaiting);
  nb::enum_<Blocker>(module, "Blocker")
      .value("NOTHING", Blocker::kNothing)
      .value("NOT_SETTLED", Blocker::kNotSettled)
      .value("HELD", Blocker::kHeld)
      .value("ACTOR_WITHOUT_TARGET", Blocker::kActorWithoutTarget)
      .value("NO_TARGET", Blocker::kNoTarget)
      .value("HOST_TIME", Blocker::kHostTime);
}

}  // namespace

void bind_core(nb::module_& module) {
  bind_enumerations(module);
  nb::class_<Core>(module, "Core", "The Timekeeper's decisions (timekeeper/core/core.hpp).")
      .def(nb::init<ClockMode, GuardKind>(), nb::arg("mode"), nb::arg("guard"))
      .def(
          "add_member",
          [](Core& core, std::string name) { return core.add_member(std::move(name)).value; },
          nb::arg("name"))
      .def(
          "remove_member",
          [](Core& core, std::uint32_t member) {
            return values(core.remove_member(MemberId{member}));
          },
          nb::arg("member"), "Returns the actors that were waiting, in order of their ids.")
      .def("add_actor", &add_actor, nb::arg("member"), nb::arg("name"),
           nb::arg("kind") = ActorKind::kActor, nb::arg("place") = ActorPlace::kHere,
           nb::arg("order") = 0, "None where the member is unknown.")
      .def(
          "remove_actor",
          [](Core& core, std::uint32_t actor) { return core.remove_actor(ActorId{actor}); },
          nb::arg("actor"))
      .def(
          "wait_until",
          [](Core& core, std::uint32_t actor, std::int64_t ns) {
            return core.wait_until(ActorId{actor}, VirtualTime::from_ns(ns));
          },
          nb::arg("actor"), nb::arg("target_ns"))
      .def(
          "cancel", [](Core& core, std::uint32_t actor) { return core.cancel(ActorId{actor}); },
          nb::arg("actor"))
      .def(
          "add_hold",
          [](Core& core, std::uint32_t member) { return value(core.add_hold(MemberId{member})); },
          nb::arg("member"), "None where the member is unknown.")
      .def(
          "release", [](Core& core, std::uint32_t hold) { return core.release(HoldId{hold}); },
          nb::arg("hold"))
      .def(
          "carry", [](Core& core, std::int64_t ns) { core.carry(VirtualTime::from_ns(ns)); },
          nb::arg("now_ns"))
      .def("advance", &advance, nb::arg("settled"),
           "(time in ns, actors woken in order), or None where time stands still.")
      .def("blocker", &Core::blocker, nb::arg("settled"))
      .def("target_ns", &target_ns, nb::arg("actor"))
      .def_prop_ro("now_ns", [](const Core& core) { return core.now().ns(); })
      .def_prop_ro("waiting", &Core::waiting);
}

}  // namespace warpserve
