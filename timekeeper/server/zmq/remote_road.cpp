#include "timekeeper/server/zmq/remote_road.hpp"

#include <algorithm>
#include <utility>

namespace warpserve {

void RemoteRoad::apply_requests() {
  gateway_.drain(requests_);
  for (const Request& request : requests_) {
    std::visit([this](const auto& what) { apply(what); }, request);
  }
}

void RemoteRoad::announce(const Advance& advance) {
  if (members_.empty()) return;
  std::vector<wire::Wait> over;
  for (const ActorId actor : advance.woken) {
    const auto entry = actors_.find(actor);
    if (entry != actors_.end()) over.push_back(entry->second.wait);
  }
  const bool all_due = gateway_.options().guard == GuardKind::kBarrier;
  const ActorId woken = all_due ? wire::kAllDue : advance.woken.front();
  gateway_.publish({.round = ++round_, .now = advance.to, .woken = woken, .ended = 0},
                   std::move(over));
}

std::vector<RemoteMember> RemoteRoad::members() const {
  std::vector<RemoteMember> all;
  for (const auto& [peer, member] : members_) all.push_back(member);
  return all;
}

std::vector<RemoteActor> RemoteRoad::actors() const {
  std::vector<RemoteActor> all;
  for (const auto& [actor, entry] : actors_) {
    all.push_back({.actor = actor,
                   .member = members_.at(entry.peer).member,
                   .name = entry.name,
                   .kind = entry.kind,
                   .target = core_.target(actor)});
  }
  return all;
}

std::vector<MemberId> RemoteRoad::holders() const {
  std::vector<MemberId> all;
  for (const auto& [hold, peer] : holds_) all.push_back(members_.at(peer).member);
  return all;
}

bool RemoteRoad::is_at_work() const {
  return !holds_.empty() || std::ranges::any_of(actors_, [this](const auto& actor) {
    return actor.second.kind == ActorKind::kActor && !core_.target(actor.first);
  });
}

void RemoteRoad::apply(const MemberJoined& joined) {
  had_member_ = true;
  const MemberId member = core_.add_member(joined.name);
  members_[joined.ticket.peer] = {member, joined.name, joined.pid};
  const GatewayOptions& options = gateway_.options();
  reply(joined.ticket, {},
        wire::Welcome{.mode = options.mode,
                      .guard = options.guard,
                      .now = now(),
                      .realtime_epoch_ns = options.realtime_epoch_ns,
                      .heartbeat_interval = options.heartbeat_interval,
                      .silence_limit = options.silence_limit,
                      .session = options.session});
}

void RemoteRoad::apply(const MemberLeft& left) {
  const auto node = members_.extract(left.peer);
  if (node.empty()) return;
  core_.remove_member(node.mapped().member);
  std::erase_if(actors_, [&left](const auto& actor) { return actor.second.peer == left.peer; });
  std::erase_if(holds_, [&left](const auto& hold) { return hold.second == left.peer; });
  hooks_.member_left(node.mapped(), left.died, left.reason);
}

void RemoteRoad::apply(const ActorAsked& asked) {
  const auto actor = core_.add_actor({.member = members_.at(asked.ticket.peer).member,
                                      .name = asked.name,
                                      .kind = asked.kind,
                                      .place = ActorPlace::kRemote,
                                      .order = asked.order});
  if (!actor) return;
  actors_[*actor] = {asked.ticket.peer, asked.name, asked.kind, {*actor, 0, {}}};
  reply(asked.ticket, *actor, wire::ActorAdded{now()});
}

void RemoteRoad::apply(const ActorGivenUp& given_up) {
  core_.remove_actor(given_up.actor);
  actors_.erase(given_up.actor);
  reply(given_up.ticket, given_up.actor, wire::Time{now(), 0, wire::WaitState::kNone});
}

void RemoteRoad::apply(const WaitAsked& asked) {
  const wire::Wait& wait = asked.wait;
  CoreStatus status = core_.wait_until(wait.actor, wait.target);
  if (status == CoreStatus::kAlreadyWaiting) {
    (void)core_.cancel(wait.actor);
    status = core_.wait_until(wait.actor, wait.target);
  }
  if (status == CoreStatus::kOk) actors_.at(wait.actor).wait = wait;
}

void RemoteRoad::apply(const CancelAsked& asked) {
  const auto entry = actors_.find(asked.actor);
  const bool is_latest = entry != actors_.end() && entry->second.wait.sequence == asked.sequence;
  const bool cancelled = is_latest && core_.cancel(asked.actor) == CoreStatus::kOk;
  reply(asked.ticket, asked.actor,
        wire::Time{now(), asked.sequence,
                   cancelled ? wire::WaitState::kCancelled : wire::WaitState::kOver});
}

void RemoteRoad::apply(const HoldAsked& asked) {
  const auto hold = core_.add_hold(members_.at(asked.ticket.peer).member);
  if (!hold) return;
  holds_[*hold] = asked.ticket.peer;
  reply(asked.ticket, {}, wire::Held{*hold, now()});
}

void RemoteRoad::apply(const HoldReleased& released) {
  (void)core_.release(released.hold);
  holds_.erase(released.hold);
}

void RemoteRoad::apply(const StatusAsked& asked) {
  const std::string json = hooks_.status_json();
  if (json.size() > wire::kMaxStatusBytes) {
    return reply(asked.ticket, {},
                 wire::Error{wire::ErrorCode::kUnexpected,
                             wire::Line::cut("the status is too long for the wire; ask on the "
                                             "Timekeeper's host")});
  }
  const std::string_view text = json;
  const auto count = std::max<std::size_t>(
      1, (text.size() + wire::kStatusChunkBytes - 1) / wire::kStatusChunkBytes);
  for (std::size_t i = 0; i < count; ++i) {
    reply(asked.ticket, {},
          wire::StatusReply{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(count),
                            text.substr(i * wire::kStatusChunkBytes, wire::kStatusChunkBytes)});
  }
}

void RemoteRoad::apply(const GatewayFailed& failed) {
  hooks_.gateway_failed(failed.text);
}

void RemoteRoad::reply(const Ticket& ticket, ActorId actor, wire::Message message) {
  const auto member = members_.find(ticket.peer);
  if (member == members_.end()) return;
  gateway_.reply(ticket.peer, {{member->second.member, actor, ticket.request}, std::move(message)});
}

}  // namespace warpserve
