#include "timekeeper/server/zmq/peer_table.hpp"

#include <algorithm>
#include <utility>

namespace warpserve {

Peer* PeerTable::add(std::string routing, std::string name) {
  if (peers_.size() >= limits_.members) return nullptr;
  const std::uint64_t id = next_peer_++;
  by_routing_.emplace(routing, id);
  Peer& peer = peers_[id];
  peer.id = PeerId{id};
  peer.routing = std::move(routing);
  peer.name = std::move(name);
  return &peer;
}

Peer* PeerTable::find(std::string_view routing) {
  const auto it = by_routing_.find(routing);
  return it == by_routing_.end() ? nullptr : &peers_.at(it->second);
}

Peer* PeerTable::find(PeerId peer) {
  const auto it = peers_.find(peer.value);
  return it == peers_.end() ? nullptr : &it->second;
}

void PeerTable::remove(PeerId peer) {
  const auto node = peers_.extract(peer.value);
  if (node.empty()) return;
  watched_ -= node.mapped().watched ? 1 : 0;
  by_routing_.erase(node.mapped().routing);
  std::erase_if(actors_, [peer](const auto& actor) { return actor.second.owner == peer; });
  std::erase_if(holds_, [peer](const auto& hold) { return hold.second == peer; });
}

std::vector<PeerId> PeerTable::peers() const {
  std::vector<PeerId> ids;
  ids.reserve(peers_.size());
  for (const auto& [id, peer] : peers_) ids.push_back(peer.id);
  return ids;
}

void PeerTable::set_watched(Peer& peer, bool watched) {
  if (peer.watched) --watched_;
  if (watched) ++watched_;
  peer.watched = watched;
}

bool PeerTable::take_queue_place(Peer& peer, std::uint64_t drains) const {
  if (peer.queued_at_drain != drains) {
    peer.queued_at_drain = drains;
    peer.queued = 0;
  }
  if (peer.queued >= limits_.queued_per_member) return false;
  ++peer.queued;
  return true;
}

bool PeerTable::owns(PeerId peer, ActorId actor) const {
  const auto it = actors_.find(actor.value);
  return it != actors_.end() && it->second.owner == peer;
}

void PeerTable::remove_actor(Peer& peer, ActorId actor) {
  if (actors_.erase(actor.value) == 1) --peer.actors;
}

void PeerTable::remove_hold(HoldId hold) {
  const auto node = holds_.extract(hold.value);
  if (node.empty()) return;
  if (Peer* owner = find(node.mapped())) --owner->holds;
}

bool PeerTable::begin_wait(ActorId actor, std::uint64_t sequence) {
  ActorEntry& entry = actors_.at(actor.value);
  if (sequence <= entry.sequence) return false;
  entry.sequence = sequence;
  entry.pending = true;
  return true;
}

void PeerTable::end_wait(ActorId actor, std::uint64_t sequence) {
  const auto it = actors_.find(actor.value);
  if (it != actors_.end() && it->second.sequence == sequence) it->second.pending = false;
}

wire::WaitState PeerTable::wait_state(ActorId actor, std::uint64_t sequence) const {
  const auto it = actors_.find(actor.value);
  const bool pending = it != actors_.end() && it->second.pending && it->second.sequence == sequence;
  return pending ? wire::WaitState::kPending : wire::WaitState::kOver;
}

}  // namespace warpserve
