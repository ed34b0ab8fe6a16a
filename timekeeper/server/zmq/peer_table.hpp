// The I/O thread's ledger: who is connected, whose actors and holds exist, and whether a wait is
// still pending. It answers and refuses what needs no Core, so that nothing unchecked or unbounded
// reaches the Core's owner. No I/O, no locks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "timekeeper/core/core.hpp"
#include "timekeeper/server/zmq/requests.hpp"

namespace warpserve {

// What one session, and one member of it, may take up.
struct GatewayLimits {
  std::size_t members = 4096;
  std::size_t actors_per_member = 4096;
  std::size_t holds_per_member = 65'536;  // each message in flight has one
  std::size_t queued_per_member = 8192;   // requests that the owner has not taken yet
};

struct Peer {
  PeerId id;
  std::string routing;
  std::string name;
  MemberId member;  // 0 until the owner has admitted it
  HostTime last_heard;
  bool watched = false;    // by its pidfd: silence is no sign of death
  std::size_t actors = 0;  // asked for and not given up
  std::size_t holds = 0;   // asked for and not released
  std::size_t queued = 0;
  std::uint64_t queued_at_drain = 0;
};

class PeerTable {
 public:
  explicit PeerTable(GatewayLimits limits) : limits_(limits) {}

  // Nothing where the session is full. The routing id must be new.
  Peer* add(std::string routing, std::string name);
  Peer* find(std::string_view routing);
  Peer* find(PeerId peer);
  void remove(PeerId peer);
  std::vector<PeerId> peers() const;
  void set_watched(Peer& peer, bool watched);
  bool has_unwatched() const { return watched_ < peers_.size(); }

  // Takes a place among the peer's unanswered requests; `drains` counts how often the owner has
  // emptied the queue. False where the peer has used its share.
  bool take_queue_place(Peer& peer, std::uint64_t drains) const;

  bool has_actor_place(const Peer& peer) const { return peer.actors < limits_.actors_per_member; }
  bool has_hold_place(const Peer& peer) const { return peer.holds < limits_.holds_per_member; }

  void add_actor(ActorId actor, PeerId owner) { actors_[actor.value] = {owner, 0, false}; }
  bool owns(PeerId peer, ActorId actor) const;
  void remove_actor(Peer& peer, ActorId actor);
  void add_hold(HoldId hold, PeerId owner) { holds_[hold.value] = owner; }
  // Any member may release any hold: a message carries its hold to its receiver.
  bool knows_hold(HoldId hold) const { return holds_.contains(hold.value); }
  void remove_hold(HoldId hold);

  // False where `sequence` is not above all earlier ones of this actor.
  bool begin_wait(ActorId actor, std::uint64_t sequence);
  void end_wait(ActorId actor, std::uint64_t sequence);
  wire::WaitState wait_state(ActorId actor, std::uint64_t sequence) const;

 private:
  struct ActorEntry {
    PeerId owner;
    std::uint64_t sequence = 0;
    bool pending = false;
  };
  struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  GatewayLimits limits_;
  std::uint64_t next_peer_ = 1;
  std::size_t watched_ = 0;
  std::unordered_map<std::uint64_t, Peer> peers_;
  std::unordered_map<std::string, std::uint64_t, StringHash, std::equal_to<>> by_routing_;
  std::unordered_map<std::uint32_t, ActorEntry> actors_;
  std::unordered_map<std::uint32_t, PeerId> holds_;
};

}  // namespace warpserve
