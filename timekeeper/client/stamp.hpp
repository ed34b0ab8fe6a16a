// A message between actors that carries its virtual send time and a hold.
//
// While the message travels its hold is out, so time cannot overtake it however long it takes.
// The format is that of warpserve.timekeeper.stamped: docs/protocol.md, "Stamped messages".
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "timekeeper/core/core.hpp"
#include "timekeeper/core/types.hpp"
#include "timekeeper/server/zmq/wire.hpp"

namespace warpserve::client {

struct Stamp {
  wire::SessionId session{};
  VirtualTime sent_at;
  HoldId hold;
};

struct Stamped {
  Stamp stamp;
  std::span<const std::byte> payload;  // part of the bytes that it was read from
};

std::vector<std::byte> write_stamped(const Stamp& stamp, std::span<const std::byte> payload);
// Throws SessionError where `bytes` is no stamped message.
Stamped read_stamped(std::span<const std::byte> bytes);

}  // namespace warpserve::client
