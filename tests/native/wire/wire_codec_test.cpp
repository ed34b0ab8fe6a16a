// The wire codec: every message survives a round trip, and no bytes do harm.
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/native/check.hpp"
#include "timekeeper/server/zmq/wire.hpp"

namespace warpserve::wire {
namespace {

using Bytes = std::vector<std::byte>;

const Header kHeader{MemberId{3}, ActorId{5}, 77};
const std::vector<Wait> kWaits = {{ActorId{5}, 1, VirtualTime::from_ns(10)},
                                  {ActorId{9}, 4, VirtualTime::max()}};
constexpr VirtualTime kNow = VirtualTime::from_ns(123'456'789);

// One of each type, none of its fields at the default.
std::vector<Bytes> examples() {
  static const Bytes encoded_waits = encode_waits(kWaits);
  const Name name = *Name::from("gpu0");
  const Line text = Line::cut("why");
  Token token{};
  token.fill(9);
  SessionId session{};
  session.fill(8);
  const std::vector<Message> messages = {
      Hello{token, 42, name},
      Welcome{ClockMode::kLive, GuardKind::kSettle, kNow, -5, HostDuration::from_ms(1),
              HostDuration::from_ms(2), session},
      Refused{Refusal::kSessionFull, 2, 1, text},
      AddActor{ActorKind::kObserver, 6, name},
      ActorAdded{kNow},
      WaitUntil{WaitList(encoded_waits)},
      Cancel{4},
      RemoveActor{},
      Hold{},
      Held{HoldId{2}, kNow},
      Release{HoldId{2}},
      Now{4},
      Time{kNow, 4, WaitState::kOver},
      Heartbeat{},
      Goodbye{},
      Status{},
      StatusReply{1, 2, "{}"},
      Error{ErrorCode::kUnknownHold, text},
      Tick{8, kNow, ActorId{5}, 1}};
  std::vector<Bytes> all;
  for (const Message& message : messages) all.push_back(encode({kHeader, message}));
  return all;
}

std::optional<Fault> fault_of(const Bytes& bytes) {
  const auto decoded = decode(bytes);
  const auto* malformed = std::get_if<Malformed>(&decoded);
  return malformed ? std::optional(malformed->fault) : std::nullopt;
}

template <class T>
Bytes with(Bytes bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

TEST(every_message_survives_a_round_trip) {
  const auto all = examples();
  CHECK_EQ(all.size(), std::variant_size_v<Message>);
  for (const Bytes& bytes : all) {
    const auto decoded = decode(bytes);
    REQUIRE(std::holds_alternative<Envelope>(decoded));
    const auto& envelope = std::get<Envelope>(decoded);
    CHECK(envelope.header == kHeader);
    CHECK(encode(envelope) == bytes);
    CHECK(bytes.size() <= kMaxMessageBytes);
  }
}

TEST(waits_are_read_in_order) {
  const Bytes encoded = encode_waits(kWaits);
  const WaitList list(encoded);
  CHECK_EQ(list.size(), 2U);
  CHECK(list[0] == kWaits[0]);
  CHECK(list[1] == kWaits[1]);
}

TEST(every_truncation_and_every_surplus_is_named) {
  for (const Bytes& bytes : examples()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK_EQ(fault_of(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))),
               Fault::kTruncated);
    }
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    CHECK_EQ(fault_of(longer), Fault::kTrailingBytes);
  }
}

TEST(faults_have_their_names) {
  const Bytes hold = encode({kHeader, Hold{}});
  CHECK_EQ(fault_of(with(hold, 0, std::uint32_t{1})), Fault::kBadMagic);
  CHECK_EQ(fault_of(with(hold, 6, std::uint16_t{0})), Fault::kUnknownType);
  CHECK_EQ(fault_of(with(hold, 6, std::uint16_t{20})), Fault::kUnknownType);

  const auto other = decode(with(hold, 4, std::uint16_t{9}));
  CHECK_EQ(std::get<Malformed>(other).fault, Fault::kOtherVersion);
  CHECK_EQ(std::get<Malformed>(other).version, 9);

  const Bytes tick = encode({kHeader, Tick{}});
  CHECK_EQ(fault_of(with(tick, kHeaderBytes + 8, std::int64_t{-1})), Fault::kNegativeTime);

  const Bytes wait = encode({kHeader, WaitUntil{WaitList(encode_waits(kWaits))}});
  CHECK_EQ(fault_of(with(wait, kHeaderBytes, std::uint32_t{kMaxWaits + 1})), Fault::kTooMany);
  CHECK_EQ(fault_of(with(wait, kHeaderBytes, std::uint32_t{0xffffffff})), Fault::kTooMany);
  CHECK_EQ(fault_of(with(wait, kHeaderBytes + 4 + 12, std::int64_t{-1})), Fault::kNegativeTime);
  CHECK_EQ(fault_of(with(wait, kHeaderBytes + 4, std::uint32_t{0})), Fault::kBadValue);

  const Bytes add = encode({kHeader, AddActor{ActorKind::kActor, 0, *Name::from("gpu")}});
  CHECK_EQ(fault_of(with(add, kHeaderBytes, std::uint32_t{2})), Fault::kBadValue);
  CHECK_EQ(fault_of(with(add, kHeaderBytes + 12, '\n')), Fault::kBadText);
  CHECK_EQ(fault_of(with(add, kHeaderBytes + 12 + 10, 'x')), Fault::kBadText);
  Bytes unterminated = add;
  std::memset(unterminated.data() + kHeaderBytes + 12, 'x', kNameBytes);
  CHECK_EQ(fault_of(unterminated), Fault::kTextTooLong);
}

TEST(texts_have_bounds) {
  CHECK(Name::from(std::string(kNameBytes - 1, 'x')).has_value());
  CHECK(!Name::from(std::string(kNameBytes, 'x')).has_value());
  CHECK(!Name::from("caf\xc3\xa9").has_value());
  CHECK_EQ(Line::cut("a\nb").view(), "a?b");
  CHECK_EQ(Line::cut(std::string(500, 'x')).view().size(), kTextBytes - 1);
}

// Valid messages with bytes changed, removed and added. Whatever comes of it, what decodes must
// encode to the same bytes: nothing is read that is not there, and nothing is lost.
TEST(mutated_messages_do_no_harm) {
  std::mt19937_64 random(20'240'607);
  const auto all = examples();
  std::size_t valid = 0;
  std::size_t malformed = 0;
  for (int i = 0; i < 200'000; ++i) {
    Bytes bytes = all[random() % all.size()];
    for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes.resize(std::max<std::size_t>(at, 1));
          break;
        case 1:
          bytes.push_back(static_cast<std::byte>(random()));
          break;
        default:
          bytes[at] = static_cast<std::byte>(random());
      }
    }
    const auto decoded = decode(bytes);
    if (const auto* envelope = std::get_if<Envelope>(&decoded)) {
      ++valid;
      REQUIRE(encode(*envelope) == bytes);
    } else {
      ++malformed;
    }
  }
  CHECK(valid > 10'000);
  CHECK(malformed > 10'000);
}

TEST(random_bytes_are_no_message) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random() % 64);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    CHECK(fault_of(bytes).has_value());
  }
}

}  // namespace
}  // namespace warpserve::wire
