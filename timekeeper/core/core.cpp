#include "timekeeper/core/core.hpp"

#include <algorithm>
#include <utility>

namespace warpserve {

MemberId Core::add_member(std::string name) {
  const auto id = fresh_id<MemberId>(members_);
  members_.emplace(id, std::move(name));
  return id;
}

std::vector<ActorId> Core::remove_member(MemberId member) {
  std::vector<ActorId> were_waiting;
  for (auto it = actors_.begin(); it != actors_.end();) {
    const auto current = it++;
    if (current->second.spec.member != member) continue;
    if (current->second.target) were_waiting.push_back(current->first);
    erase_actor(current);
  }
  std::erase_if(holds_, [member](const auto& hold) { return hold.second == member; });
  members_.erase(member);
  return were_waiting;
}

std::optional<ActorId> Core::add_actor(ActorSpec spec) {
  if (!members_.contains(spec.member)) return std::nullopt;
  const auto id = fresh_id<ActorId>(actors_);
  count_registered(spec, +1);
  count_without_target(spec, +1);
  actors_.emplace(id, Actor{std::move(spec), std::nullopt});
  return id;
}

CoreStatus Core::remove_actor(ActorId actor) {
  const auto it = actors_.find(actor);
  if (it == actors_.end()) return CoreStatus::kUnknownActor;
  erase_actor(it);
  return CoreStatus::kOk;
}

CoreStatus Core::wait_until(ActorId actor, VirtualTime target) {
  const auto it = actors_.find(actor);
  if (it == actors_.end()) return CoreStatus::kUnknownActor;
  if (it->second.target) return CoreStatus::kAlreadyWaiting;
  set_target(actor, it->second, target);
  return CoreStatus::kOk;
}

CoreStatus Core::cancel(ActorId actor) {
  const auto it = actors_.find(actor);
  if (it == actors_.end()) return CoreStatus::kUnknownActor;
  if (!it->second.target) return CoreStatus::kNotWaiting;
  clear_target(actor, it->second);
  return CoreStatus::kOk;
}

std::optional<HoldId> Core::add_hold(MemberId member) {
  if (!members_.contains(member)) return std::nullopt;
  const auto id = fresh_id<HoldId>(holds_);
  holds_.emplace(id, member);
  return id;
}

CoreStatus Core::release(HoldId hold) {
  return holds_.erase(hold) == 1 ? CoreStatus::kOk : CoreStatus::kUnknownHold;
}

void Core::carry(VirtualTime now) {
  if (mode_ != ClockMode::kExact) now_ = std::max(now_, now);
}

std::optional<Advance> Core::advance(bool settled) {
  if (blocker(settled) != Blocker::kNothing) return std::nullopt;
  now_ = std::max(now_, pending_.begin()->target);
  Advance advance{now_, {wake_first()}};
  if (guard_ == GuardKind::kBarrier) {
    while (!pending_.empty() && pending_.begin()->target <= now_) {
      advance.woken.push_back(wake_first());
    }
  }
  return advance;
}

Blocker Core::blocker(bool settled) const {
  if (!next_target()) return Blocker::kNoTarget;
  if (host_time_has_reached_a_target()) return Blocker::kNothing;
  if (mode_ == ClockMode::kSleep) return Blocker::kHostTime;
  return guard_blocker(settled);
}

std::size_t Core::waiting() const {
  return pending_.size();
}

std::optional<VirtualTime> Core::next_target() const {
  if (pending_.empty() || pending_.begin()->target == VirtualTime::max()) return std::nullopt;
  return pending_.begin()->target;
}

std::optional<VirtualTime> Core::target(ActorId actor) const {
  const auto it = actors_.find(actor);
  return it == actors_.end() ? std::nullopt : it->second.target;
}

bool Core::host_time_has_reached_a_target() const {
  return mode_ != ClockMode::kExact && !pending_.empty() && pending_.begin()->target <= now_;
}

Blocker Core::guard_blocker(bool settled) const {
  if (guard_ == GuardKind::kSettle && !settled) return Blocker::kNotSettled;
  if (!holds_.empty()) return Blocker::kHeld;
  const bool all_have_targets = guard_ == GuardKind::kSettle
                                    ? census_.remote_without_target == 0
                                    : census_.registered > 0 && census_.without_target == 0;
  return all_have_targets ? Blocker::kNothing : Blocker::kActorWithoutTarget;
}

ActorId Core::wake_first() {
  const ActorId id = pending_.begin()->actor;
  clear_target(id, actors_.at(id));
  return id;
}

void Core::set_target(ActorId id, Actor& actor, VirtualTime target) {
  actor.target = target;
  pending_.insert({target, actor.spec.order, id});
  count_without_target(actor.spec, -1);
}

void Core::clear_target(ActorId id, Actor& actor) {
  pending_.erase({*actor.target, actor.spec.order, id});
  actor.target.reset();
  count_without_target(actor.spec, +1);
}

void Core::erase_actor(std::map<ActorId, Actor>::iterator it) {
  auto& [id, actor] = *it;
  if (actor.target) clear_target(id, actor);
  count_without_target(actor.spec, -1);
  count_registered(actor.spec, -1);
  actors_.erase(it);
}

void Core::count_registered(const ActorSpec& spec, int change) {
  if (spec.kind == ActorKind::kActor) census_.registered += change;
}

void Core::count_without_target(const ActorSpec& spec, int change) {
  if (spec.kind != ActorKind::kActor) return;
  census_.without_target += change;
  if (spec.place == ActorPlace::kRemote) census_.remote_without_target += change;
}

// Ids are never 0 and, after the counter has wrapped, never those of the living.
template <class Id, class Value>
Id Core::fresh_id(const std::map<Id, Value>& taken) {
  while (next_id_ == 0 || taken.contains(Id{next_id_})) ++next_id_;
  return Id{next_id_++};
}

}  // namespace warpserve
