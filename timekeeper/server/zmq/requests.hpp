// What remote members ask of the owner of the Core, already checked: known member, own actors,
// within limits.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>

#include "timekeeper/core/core.hpp"
#include "timekeeper/server/zmq/wire.hpp"

namespace warpserve {

// A connection, from its Hello until it leaves or dies. Never reused.
struct PeerId {
  std::uint64_t value = 0;
  auto operator<=>(const PeerId&) const = default;
};

// Where a reply goes.
struct Ticket {
  PeerId peer;
  std::uint64_t request = 0;
};

struct MemberJoined {
  Ticket ticket;
  std::string name;
  std::uint32_t pid = 0;  // 0: on another host, or not told
};
struct MemberLeft {
  PeerId peer;
  bool died = false;  // false: it said goodbye
  std::string reason;
};
struct ActorAsked {
  Ticket ticket;
  std::string name;
  ActorKind kind = ActorKind::kActor;
  std::uint64_t order = 0;
};
struct ActorGivenUp {
  Ticket ticket;
  ActorId actor;
};
struct WaitAsked {
  PeerId peer;
  wire::Wait wait;
};
struct CancelAsked {
  Ticket ticket;
  ActorId actor;
  std::uint64_t sequence = 0;
};
struct HoldAsked {
  Ticket ticket;
};
struct HoldReleased {
  Ticket ticket;
  HoldId hold;
};
struct StatusAsked {
  Ticket ticket;
};
// The I/O thread cannot go on; the session must end with this text.
struct GatewayFailed {
  std::string text;
};

using Request = std::variant<MemberJoined, MemberLeft, ActorAsked, ActorGivenUp, WaitAsked,
                             CancelAsked, HoldAsked, HoldReleased, StatusAsked, GatewayFailed>;

}  // namespace warpserve
