// Between the gateway and the Core, on the Core owner's thread: applies what remote members ask,
// and tells them what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
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

  bool empty() const { return members_.empty(); }

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

  struct RemoteWait {
    PeerId peer;
    wire::Wait wait;
  };

  void reply(const Ticket& ticket, ActorId actor, wire::Message message);
  VirtualTime now() const { return gateway_.options().clock(); }

  Core& core_;
  Gateway& gateway_;
  RemoteRoadHooks hooks_;
  std::vector<Request> requests_;
  std::map<PeerId, RemoteMember> members_;
  // The latest wait of each remote actor. A wait with a higher sequence takes the place of the
  // one before, whatever became of it: nothing stale survives.
  std::unordered_map<std::uint32_t, RemoteWait> waits_;
  std::uint64_t round_ = 0;
};

}  // namespace warpserve
