// The messages between the Timekeeper and those who reach it over ZeroMQ, and their codec.
//
// Pure functions over bytes; docs/protocol.md is the prose. Raise kVersion whenever a message
// moves or changes its meaning. Two things never change, so that strangers can say what they are:
// the first eight bytes of any message (magic, version, type) and the whole of `Refused`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "timekeeper/core/core.hpp"
#include "timekeeper/core/types.hpp"
#include "timekeeper/shared/contract.hpp"

namespace warpserve::wire {

inline constexpr std::uint32_t kMagic = 0x4b545057;  // "WPTK"
inline constexpr std::uint16_t kVersion = 1;

inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kNameBytes = 64;   // with the closing NUL
inline constexpr std::size_t kTextBytes = 192;  // with the closing NUL
inline constexpr std::size_t kSessionIdBytes = 16;
inline constexpr std::size_t kWaitBytes = 20;
inline constexpr std::size_t kMaxWaits = 1024;             // in one WaitUntil
inline constexpr std::size_t kStatusChunkBytes = 16'384;   // in one StatusReply
inline constexpr std::size_t kMaxStatusBytes = 1'048'576;  // over all chunks
inline constexpr std::size_t kMaxMessageBytes = kHeaderBytes + 4 + kMaxWaits * kWaitBytes;

using Token = std::array<std::uint8_t, kTokenBytes>;
using SessionId = std::array<std::uint8_t, kSessionIdBytes>;

// Printable ASCII in a field of fixed size, padded with NUL.
template <std::size_t Capacity>
class Text {
 public:
  // Nothing where it does not fit or is not printable ASCII.
  static std::optional<Text> from(std::string_view text) {
    if (text.size() >= Capacity) return std::nullopt;
    Text result;
    for (const char c : text) {
      if (!is_printable(c)) return std::nullopt;
      result.bytes_[result.size_++] = c;
    }
    return result;
  }

  // For what the Timekeeper says: cut to the field, with `?` for what is not printable.
  static Text cut(std::string_view text) {
    Text result;
    for (const char c : text.substr(0, Capacity - 1)) {
      result.bytes_[result.size_++] = is_printable(c) ? c : '?';
    }
    return result;
  }

  std::string_view view() const { return {bytes_.data(), size_}; }
  std::span<const char, Capacity> padded() const { return bytes_; }
  static bool is_printable(char c) { return c >= 0x20 && c <= 0x7e; }
  bool operator==(const Text&) const = default;

 private:
  std::array<char, Capacity> bytes_{};
  std::size_t size_ = 0;
};

using Name = Text<kNameBytes>;
using Line = Text<kTextBytes>;

enum class Type : std::uint16_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kAddActor = 4,
  kActorAdded = 5,
  kWaitUntil = 6,
  kCancel = 7,
  kRemoveActor = 8,
  kHold = 9,
  kHeld = 10,
  kRelease = 11,
  kNow = 12,
  kTime = 13,
  kHeartbeat = 14,
  kGoodbye = 15,
  kStatus = 16,
  kStatusReply = 17,
  kError = 18,
  kTick = 19,
};

enum class Refusal : std::uint32_t { kOtherVersion = 1, kWrongToken = 2, kSessionFull = 3 };

enum class ErrorCode : std::uint32_t {
  kMalformed = 1,
  kNotAMember = 2,
  kUnexpected = 3,
  kUnknownActor = 4,
  kUnknownHold = 5,
  kStaleSequence = 6,
  kTooManyActors = 7,
  kTooManyHolds = 8,
  kTooManyRequests = 9,
  kSessionEnded = 10,
};

// What became of the wait that a Now or a Cancel names.
enum class WaitState : std::uint32_t {
  kNone = 0,       // none was named
  kPending = 1,    // its target has not been reached
  kOver = 2,       // it was woken, or a later wait took its place
  kCancelled = 3,  // this Cancel ended it
};

struct Hello {
  static constexpr Type kType = Type::kHello;
  Token token{};
  std::uint32_t pid = 0;  // 0: do not watch; ignored from other hosts
  Name name;
};

struct Welcome {
  static constexpr Type kType = Type::kWelcome;
  ClockMode mode = ClockMode::kExact;
  GuardKind guard = GuardKind::kBarrier;
  VirtualTime now;
  std::int64_t realtime_epoch_ns = 0;  // CLOCK_REALTIME at virtual time 0
  HostDuration heartbeat_interval;
  HostDuration silence_limit;
  SessionId session{};
};

struct Refused {
  static constexpr Type kType = Type::kRefused;
  Refusal code = Refusal::kWrongToken;
  std::uint32_t your_version = kVersion;
  std::uint32_t our_version = kVersion;
  Line text;
};

struct AddActor {
  static constexpr Type kType = Type::kAddActor;
  ActorKind kind = ActorKind::kActor;
  std::uint64_t order = 0;
  Name name;
};

struct ActorAdded {  // Header::actor is the new actor
  static constexpr Type kType = Type::kActorAdded;
  VirtualTime now;
};

// One actor's wait. `sequence` counts the waits of the actor from 1.
struct Wait {
  ActorId actor;
  std::uint64_t sequence = 0;
  VirtualTime target;
  bool operator==(const Wait&) const = default;
};

// A view of the encoded waits, checked by decode(); valid as long as the message's bytes are.
class WaitList {
 public:
  WaitList() = default;
  explicit WaitList(std::span<const std::byte> encoded) : encoded_(encoded) {}
  std::size_t size() const { return encoded_.size() / kWaitBytes; }
  Wait operator[](std::size_t index) const;

 private:
  std::span<const std::byte> encoded_;
};

struct WaitUntil {
  static constexpr Type kType = Type::kWaitUntil;
  WaitList waits;
};

struct Cancel {  // Header::actor
  static constexpr Type kType = Type::kCancel;
  std::uint64_t sequence = 0;
};

struct RemoveActor {  // Header::actor
  static constexpr Type kType = Type::kRemoveActor;
};

struct Hold {
  static constexpr Type kType = Type::kHold;
};

struct Held {
  static constexpr Type kType = Type::kHeld;
  HoldId hold;
  VirtualTime now;
};

struct Release {
  static constexpr Type kType = Type::kRelease;
  HoldId hold;
};

struct Now {  // Header::actor with `sequence`: what became of that wait?
  static constexpr Type kType = Type::kNow;
  std::uint64_t sequence = 0;
};

struct Time {
  static constexpr Type kType = Type::kTime;
  VirtualTime now;
  std::uint64_t sequence = 0;
  WaitState state = WaitState::kNone;
};

struct Heartbeat {
  static constexpr Type kType = Type::kHeartbeat;
};

struct Goodbye {
  static constexpr Type kType = Type::kGoodbye;
};

struct Status {
  static constexpr Type kType = Type::kStatus;
};

struct StatusReply {  // a view, as WaitList
  static constexpr Type kType = Type::kStatusReply;
  std::uint32_t index = 0;
  std::uint32_t count = 1;
  std::string_view chunk;
};

struct Error {  // Header::request 0: about the wait of Header::actor, or, without one, the member
  static constexpr Type kType = Type::kError;
  ErrorCode code = ErrorCode::kMalformed;
  Line text;
};

inline constexpr ActorId kAllDue{0};

struct Tick {
  static constexpr Type kType = Type::kTick;
  std::uint64_t round = 0;
  VirtualTime now;
  // kAllDue: every wait whose target is `now` or earlier is over. Else only this actor's.
  ActorId woken = kAllDue;
  std::uint32_t ended = 0;  // 1: the session has ended
};

using Message = std::variant<Hello, Welcome, Refused, AddActor, ActorAdded, WaitUntil, Cancel,
                             RemoveActor, Hold, Held, Release, Now, Time, Heartbeat, Goodbye,
                             Status, StatusReply, Error, Tick>;

struct Header {
  MemberId member;            // 0 before Welcome
  ActorId actor;              // 0 where no actor is meant
  std::uint64_t request = 0;  // the reply carries it back
  bool operator==(const Header&) const = default;
};

struct Envelope {
  Header header;
  Message message;
};

enum class Fault : std::uint8_t {
  kTruncated,
  kBadMagic,
  kOtherVersion,
  kUnknownType,
  kTrailingBytes,
  kTextTooLong,
  kBadText,
  kNegativeTime,
  kBadValue,
  kTooMany,
};

struct Malformed {
  Fault fault = Fault::kTruncated;
  std::uint16_t version = 0;  // the sender's, where the message is long enough to tell
};

// What is wrong, for people.
std::string_view describe(Fault fault);

// Never throws, never allocates, never reads beyond `bytes`.
std::variant<Envelope, Malformed> decode(std::span<const std::byte> bytes);

std::vector<std::byte> encode(const Envelope& envelope);

// The waits of a WaitUntil, for encode(): at most kMaxWaits.
std::vector<std::byte> encode_waits(std::span<const Wait> waits);

}  // namespace warpserve::wire
