#include "timekeeper/client/stamp.hpp"

#include <algorithm>
#include <cstring>

#include "timekeeper/client/errors.hpp"

namespace warpserve::client {
namespace {

constexpr std::uint32_t kStampMagic = 0x54535057;  // "WPST"
constexpr std::uint32_t kStampVersion = 1;

// The bytes before the payload, little-endian.
struct Encoded {
  std::uint32_t magic;
  std::uint32_t version;
  std::int64_t sent_at_ns;
  std::uint32_t hold;
  std::uint32_t payload_bytes;
  wire::SessionId session;
};
static_assert(sizeof(Encoded) == 40);

}  // namespace

std::vector<std::byte> write_stamped(const Stamp& stamp, std::span<const std::byte> payload) {
  const Encoded head{kStampMagic,
                     kStampVersion,
                     stamp.sent_at.ns(),
                     stamp.hold.value,
                     static_cast<std::uint32_t>(payload.size()),
                     stamp.session};
  std::vector<std::byte> message(sizeof head + payload.size());
  std::memcpy(message.data(), &head, sizeof head);
  std::copy(payload.begin(), payload.end(), message.data() + sizeof head);
  return message;
}

Stamped read_stamped(std::span<const std::byte> bytes) {
  Encoded head{};
  if (bytes.size() >= sizeof head) std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kStampMagic || head.version != kStampVersion || head.sent_at_ns < 0 ||
      head.payload_bytes != bytes.size() - sizeof head) {
    throw SessionError("these bytes are no stamped message; send what stamp() returns, unchanged");
  }
  return {{head.session, VirtualTime::from_ns(head.sent_at_ns), HoldId{head.hold}},
          bytes.subspan(sizeof head)};
}

}  // namespace warpserve::client
