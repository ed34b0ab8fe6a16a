#include "timekeeper/client/session.hpp"

#include <utility>

#include "timekeeper/client/link.hpp"
#include "timekeeper/client/stamp.hpp"
#include "timekeeper/server/zmq/connection_bundle.hpp"

namespace warpserve::client {
namespace {

// The reply as the message that it should be.
template <class Message>
std::pair<wire::Header, Message> expect(const std::vector<std::byte>& bytes) {
  const auto decoded = wire::decode(bytes);
  const auto* envelope = std::get_if<wire::Envelope>(&decoded);
  const Message* message = envelope ? std::get_if<Message>(&envelope->message) : nullptr;
  if (message == nullptr) throw SessionError("the Timekeeper's answer is not of the expected type");
  return {envelope->header, *message};
}

VirtualTime after(VirtualTime now, VirtualDuration dt) {
  if (dt < VirtualDuration()) throw InvalidDuration("a jump's duration is negative");
  const VirtualTime target = now.saturating_add(dt);
  if (target == VirtualTime::max()) {
    throw InvalidDuration("a jump's duration is larger than the clock holds");
  }
  return target;
}

}  // namespace

Hold& Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    release();
    link_ = std::move(other.link_);
    id_ = other.id_;
  }
  return *this;
}

void Hold::release() {
  if (const auto link = std::exchange(link_, nullptr)) link->tell({}, wire::Release{id_});
}

Actor::~Actor() {
  if (!link_) return;
  link_->tell(id_, wire::RemoveActor{});
  link_->forget(id_);
}

VirtualTime Actor::jump(VirtualDuration dt) {
  start_jump(dt);
  return finish_wait();
}

VirtualTime Actor::wait_until(VirtualTime target) {
  start_wait(target);
  return finish_wait();
}

void Actor::start_jump(VirtualDuration dt) {
  link_->start_wait(id_, after(link_->now(), dt));
}

void Actor::start_wait(VirtualTime target) {
  if (target < VirtualTime()) throw InvalidDuration("the target is before the session's start");
  link_->start_wait(id_, target);
}

VirtualTime Actor::finish_wait() {
  return link_->finish_wait(id_);
}

bool Actor::cancel() {
  return link_->cancel(id_);
}

Session Session::connect(const std::filesystem::path& path, ConnectOptions options) {
  return Session(std::make_shared<Link>(read_bundle(path), std::move(options)));
}

VirtualTime Session::now() const {
  return link_->now();
}

VirtualTime Session::ask_now() {
  const auto time = expect<wire::Time>(link_->ask({}, wire::Now{}).front()).second;
  link_->learn(time.now);
  return time.now;
}

Actor Session::add_actor(const std::string& name, ActorKind kind, std::uint64_t order) {
  const auto text = wire::Name::from(name);
  if (!text) {
    throw SessionError("an actor's name must be printable ASCII of at most " +
                       std::to_string(wire::kNameBytes - 1) + " characters");
  }
  const auto [header, added] =
      expect<wire::ActorAdded>(link_->ask({}, wire::AddActor{kind, order, *text}).front());
  link_->learn(added.now);
  return Actor(link_, header.actor);
}

Hold Session::hold() {
  const auto held = expect<wire::Held>(link_->ask({}, wire::Hold{}).front()).second;
  link_->learn(held.now);
  return Hold(link_, held.hold);
}

std::string Session::status_json() {
  std::string json;
  for (const auto& part : link_->ask({}, wire::Status{})) {
    json += expect<wire::StatusReply>(part).second.chunk;
  }
  return json;
}

std::vector<std::byte> Session::stamp(std::span<const std::byte> payload) {
  const auto held = expect<wire::Held>(link_->ask({}, wire::Hold{}).front()).second;
  link_->learn(held.now);
  return write_stamped({link_->welcome().session, held.now, held.hold}, payload);
}

Accepted Session::accept(std::span<const std::byte> message) {
  const Stamped stamped = read_stamped(message);
  if (stamped.stamp.session != link_->welcome().session) {
    throw SessionError("the message was stamped in another session");
  }
  if (link_->welcome().mode == ClockMode::kExact && link_->now() > stamped.stamp.sent_at) {
    throw SessionError(
        "time has passed this message: it was accepted before, or its sender left or died while it "
        "was in flight");
  }
  link_->learn(stamped.stamp.sent_at);
  return {stamped.stamp.sent_at,
          {stamped.payload.begin(), stamped.payload.end()},
          Hold(link_, stamped.stamp.hold)};
}

VirtualDuration virtual_seconds(double seconds) {
  const auto duration = VirtualDuration::from_seconds(seconds);
  if (!duration) {
    throw InvalidDuration("a duration must be a number of seconds from 0 to 9.2e9");
  }
  return *duration;
}

}  // namespace warpserve::client
