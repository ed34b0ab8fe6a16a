// Between the gateway and the Core, on the Core owner's thread: applies what remote members ask,
// and tells them what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "timekeeper/core/core.hpp"
#include "timekeeper/server/zmq/gateway.hpp"
#include "timekeeper/server/zmq/requests.hpp"

namespace warpserve {

struct RemoteMember {
  MemberId member;
  std::string name;
  std::uint32_t pid = 0;  // 0: on another host, or not told
};

// For `status` and the stall report.
struct RemoteActor {
  ActorId actor;
  MemberId member;
  std::string name;
  ActorKind kind = ActorKind::kActor;
  std::optional<VirtualTime> target;  // nothing: it is at work
};

struct RemoteRoadHooks {
  std::function<std::string()> status_json;
  // `died`: it did not say goodbye (T9). `reason` is for people.
  std::function<void(const RemoteMember&, bool died, const std::string& reason)> member_left;
  std::function<void(const std::string& text)> gateway_failed;
};

class RemoteRoad {
 public:
  RemoteRoad(Core& core, Gateway& gateway, RemoteRoadHooks hooks)
      : core_(core), gateway_(gateway), hooks_(std::move(hooks)) {}

  // Takes what has arrived. Call it when the doorbell has rung, before asking for an advance.
  void apply_requests();
  // Broadcasts an advance. Costs nothing while there are no remote members.
  void announce(const Advance& advance);

  std::vector<RemoteMember> members() const;
  std::vector<RemoteActor> actors() const;
  std::vector<MemberId> holders() const;  // the owner of each hold that is out

  // Whether a member may still act at this instant, for all that is known of one: it has an actor
  // without a target, or its hold is out.
  bool is_at_work() const;
  bool awaits_first_member() const { return !had_member_; }

 private:
  void apply(const MemberJoined& joined);
  void apply(const MemberLeft& left);
  void apply(const ActorAsked& asked);
  void apply(const ActorGivenUp& given_up);
  void apply(const WaitAsked& asked);
  void apply(const CancelAsked& asked);
  void apply(const HoldAsked& asked);
  void apply(const HoldReleased& released);
  void apply(const StatusAsked& asked);
  void apply(const GatewayFailed& failed);

  struct Entry {
    PeerId peer;
    std::string name;
    ActorKind kind = ActorKind::kActor;
    // The latest. A wait with a higher sequence takes the place of the one before, whatever became
    // of it: nothing stale survives.
    wire::Wait wait;
  };

  void reply(const Ticket& ticket, ActorId actor, wire::Message message);
  VirtualTime now() const { return gateway_.options().clock(); }

  Core& core_;
  Gateway& gateway_;
  RemoteRoadHooks hooks_;
  std::vector<Request> requests_;
  std::map<PeerId, RemoteMember> members_;
  std::map<ActorId, Entry> actors_;
  std::map<HoldId, PeerId> holds_;
  std::uint64_t round_ = 0;
  bool had_member_ = false;
};

}  // namespace warpserve
