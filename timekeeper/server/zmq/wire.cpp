#include "timekeeper/server/zmq/wire.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace warpserve::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");
static_assert(kHeaderBytes + 12 + kStatusChunkBytes <= kMaxMessageBytes);

// Appends fields. Its counterpart is Reader; both walk the same field lists below.
class Writer {
 public:
  explicit Writer(std::size_t capacity) { bytes_.reserve(capacity); }

  template <class T>
    requires std::is_integral_v<T>
  void number(T value) {
    raw(&value, sizeof value);
  }
  void id(std::uint32_t value) { number(value); }
  void time(VirtualTime value) { number(value.ns()); }
  void duration(HostDuration value) { number(value.ns()); }
  template <class E>
  void choice(E value, E /*first*/, E /*last*/) {
    number(static_cast<std::uint32_t>(value));
  }
  template <std::size_t N>
  void text(const Text<N>& value) {
    raw(value.padded().data(), N);
  }
  template <std::size_t N>
  void octets(const std::array<std::uint8_t, N>& value) {
    raw(value.data(), N);
  }
  void waits(const WaitList& list) {
    number(static_cast<std::uint32_t>(list.size()));
    for (std::size_t i = 0; i < list.size(); ++i) wait(list[i]);
  }
  void wait(const Wait& item) {
    id(item.actor.value);
    number(item.sequence);
    time(item.target);
  }
  void chunk(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    raw(value.data(), value.size());
  }

  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  void raw(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  std::vector<std::byte> bytes_;
};

// Takes fields off the front. After the first fault nothing more is read.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
    requires std::is_integral_v<T>
  void number(T& value) {
    const auto field = take(sizeof(T));
    if (!fault_) std::memcpy(&value, field.data(), sizeof(T));
  }
  void id(std::uint32_t& value) { number(value); }
  void time(VirtualTime& value) { value = VirtualTime::from_ns(nonnegative()); }
  void duration(HostDuration& value) { value = HostDuration::from_ns(nonnegative()); }
  template <class E>
  void choice(E& value, E first, E last) {
    std::uint32_t raw = 0;
    number(raw);
    if (raw < static_cast<std::uint32_t>(first) || raw > static_cast<std::uint32_t>(last)) {
      return fail(Fault::kBadValue);
    }
    value = static_cast<E>(raw);
  }
  template <std::size_t N>
  void text(Text<N>& value) {
    const auto field = take(N);
    if (fault_) return;
    const std::string_view padded(reinterpret_cast<const char*>(field.data()), N);
    const std::size_t size = padded.find('\0');
    if (size == std::string_view::npos) return fail(Fault::kTextTooLong);
    const auto parsed = Text<N>::from(padded.substr(0, size));
    const bool padding_is_zero = padded.find_first_not_of('\0', size) == std::string_view::npos;
    if (!parsed || !padding_is_zero) return fail(Fault::kBadText);
    value = *parsed;
  }
  template <std::size_t N>
  void octets(std::array<std::uint8_t, N>& value) {
    const auto field = take(N);
    if (!fault_) std::memcpy(value.data(), field.data(), N);
  }
  void waits(WaitList& list) {
    std::uint32_t count = 0;
    number(count);
    if (!fault_ && count > kMaxWaits) return fail(Fault::kTooMany);
    const auto encoded = take(count * kWaitBytes);
    if (fault_) return;
    list = WaitList(encoded);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Wait item = list[i];
      if (item.target.ns() < 0) return fail(Fault::kNegativeTime);
      if (item.actor.value == 0 || item.sequence == 0) return fail(Fault::kBadValue);
    }
  }
  void chunk(std::string_view& value) {
    std::uint32_t size = 0;
    number(size);
    if (!fault_ && size > kStatusChunkBytes) return fail(Fault::kTooMany);
    const auto field = take(size);
    if (!fault_) value = {reinterpret_cast<const char*>(field.data()), field.size()};
  }

  void fail(Fault fault) {
    if (!fault_) fault_ = fault;
  }
  std::optional<Fault> finish() {
    if (!rest_.empty()) fail(Fault::kTrailingBytes);
    return fault_;
  }
  std::optional<Fault> fault() const { return fault_; }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) fail(Fault::kTruncated);
    if (fault_) return {};
    const auto field = rest_.first(size);
    rest_ = rest_.subspan(size);
    return field;
  }
  std::int64_t nonnegative() {
    std::int64_t ns = 0;
    number(ns);
    if (ns < 0) fail(Fault::kNegativeTime);
    return std::max<std::int64_t>(ns, 0);
  }

  std::span<const std::byte> rest_;
  std::optional<Fault> fault_;
};

// The field lists: one for each message, walked by Writer and by Reader.

template <class V, class M>
void fields(V& v, M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, Hello>) {
    v.octets(m.token);
    v.number(m.pid);
    v.text(m.name);
  } else if constexpr (std::is_same_v<T, Welcome>) {
    v.choice(m.mode, ClockMode::kExact, ClockMode::kSleep);
    v.choice(m.guard, GuardKind::kSettle, GuardKind::kBarrier);
    v.time(m.now);
    v.number(m.realtime_epoch_ns);
    v.duration(m.heartbeat_interval);
    v.duration(m.silence_limit);
    v.octets(m.session);
  } else if constexpr (std::is_same_v<T, Refused>) {
    v.choice(m.code, Refusal::kOtherVersion, Refusal::kSessionFull);
    v.number(m.your_version);
    v.number(m.our_version);
    v.text(m.text);
  } else if constexpr (std::is_same_v<T, AddActor>) {
    v.choice(m.kind, ActorKind::kActor, ActorKind::kObserver);
    v.number(m.order);
    v.text(m.name);
  } else if constexpr (std::is_same_v<T, ActorAdded>) {
    v.time(m.now);
  } else if constexpr (std::is_same_v<T, WaitUntil>) {
    v.waits(m.waits);
  } else if constexpr (std::is_same_v<T, Cancel> || std::is_same_v<T, Now>) {
    v.number(m.sequence);
  } else if constexpr (std::is_same_v<T, Held>) {
    v.id(m.hold.value);
    v.time(m.now);
  } else if constexpr (std::is_same_v<T, Release>) {
    v.id(m.hold.value);
  } else if constexpr (std::is_same_v<T, Time>) {
    v.time(m.now);
    v.number(m.sequence);
    v.choice(m.state, WaitState::kNone, WaitState::kCancelled);
  } else if constexpr (std::is_same_v<T, StatusReply>) {
    v.number(m.index);
    v.number(m.count);
    v.chunk(m.chunk);
  } else if constexpr (std::is_same_v<T, Error>) {
    v.choice(m.code, ErrorCode::kMalformed, ErrorCode::kSessionEnded);
    v.text(m.text);
  } else if constexpr (std::is_same_v<T, Tick>) {
    v.number(m.round);
    v.time(m.now);
    v.id(m.woken.value);
    v.number(m.ended);
  } else {
    static_assert(std::is_empty_v<T>, "a message with fields needs a list here");
  }
}

template <class V, class H>
void header_fields(V& v, H& header) {
  v.id(header.member.value);
  v.id(header.actor.value);
  v.number(header.request);
}

// The default message of a type: the alternative whose kType it is.
template <std::size_t Index = 0>
std::optional<Message> blank(std::uint16_t type) {
  if constexpr (Index == std::variant_size_v<Message>) {
    return std::nullopt;
  } else {
    using Alternative = std::variant_alternative_t<Index, Message>;
    if (type == static_cast<std::uint16_t>(Alternative::kType)) return Alternative{};
    return blank<Index + 1>(type);
  }
}

}  // namespace

Wait WaitList::operator[](std::size_t index) const {
  const std::byte* at = encoded_.data() + index * kWaitBytes;
  Wait item;
  std::int64_t target_ns = 0;
  std::memcpy(&item.actor.value, at, 4);
  std::memcpy(&item.sequence, at + 4, 8);
  std::memcpy(&target_ns, at + 12, 8);
  item.target = VirtualTime::from_ns(target_ns);
  return item;
}

std::string_view describe(Fault fault) {
  switch (fault) {
    case Fault::kTruncated:
      return "the message is truncated";
    case Fault::kBadMagic:
      return "this is no warpserve message (bad magic)";
    case Fault::kOtherVersion:
      return "the message has another protocol version";
    case Fault::kUnknownType:
      return "the message has an unknown type";
    case Fault::kTrailingBytes:
      return "bytes follow the end of the message";
    case Fault::kTextTooLong:
      return "a text is too long for its field";
    case Fault::kBadText:
      return "a text is not printable ASCII padded with NUL";
    case Fault::kNegativeTime:
      return "a time or duration is negative";
    case Fault::kBadValue:
      return "a field has a value outside its range";
    case Fault::kTooMany:
      return "a list is longer than the protocol allows";
  }
  return "the message is malformed";
}

std::variant<Envelope, Malformed> decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t type = 0;
  reader.number(magic);
  reader.number(version);
  reader.number(type);
  if (reader.fault()) return Malformed{Fault::kTruncated, version};
  if (magic != kMagic) return Malformed{Fault::kBadMagic, 0};
  if (version != kVersion) return Malformed{Fault::kOtherVersion, version};

  auto message = blank(type);
  if (!message) return Malformed{Fault::kUnknownType, version};
  Envelope envelope{{}, *message};
  header_fields(reader, envelope.header);
  std::visit([&](auto& body) { fields(reader, body); }, envelope.message);
  if (const auto fault = reader.finish()) return Malformed{*fault, version};
  return envelope;
}

std::vector<std::byte> encode(const Envelope& envelope) {
  Writer writer(kHeaderBytes + kTextBytes + 16);
  writer.number(kMagic);
  writer.number(kVersion);
  std::visit(
      [&](const auto& body) {
        writer.number(static_cast<std::uint16_t>(body.kType));
        header_fields(writer, envelope.header);
        fields(writer, body);
      },
      envelope.message);
  return std::move(writer).take();
}

std::vector<std::byte> encode_waits(std::span<const Wait> waits) {
  Writer writer(waits.size() * kWaitBytes);
  for (const Wait& item : waits) writer.wait(item);
  return std::move(writer).take();
}

}  // namespace warpserve::wire
