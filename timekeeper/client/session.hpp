// The C++ API of a session, over ZeroMQ: read the clock, jump, hold.
//
//   auto session = Session::connect(folder_or_bundle, {.name = "dispatcher"});
//   Actor gpu = session.add_actor("gpu0");
//   gpu.jump(VirtualDuration::from_ms(12));
//
// All calls may come from any thread. An actor is for one thread at a time, but for cancel().
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "timekeeper/client/errors.hpp"
#include "timekeeper/core/core.hpp"
#include "timekeeper/core/types.hpp"
#include "timekeeper/server/zmq/wire.hpp"

namespace warpserve::client {

class Link;

struct ConnectOptions {
  std::string name{};         // of this member, for status and reports: printable ASCII
  std::string libzmq_path{};  // empty: see zmq::Library::load
  HostDuration timeout = HostDuration::from_ms(5'000);       // of connecting and of each request
  HostDuration reask_interval = HostDuration::from_ms(100);  // how long a lost broadcast costs
  // Fault injection: true where this broadcast is to be lost.
  std::function<bool(const wire::Tick&)> loses_tick{};
};

// Virtual time may not advance while a Hold exists.
class Hold {
 public:
  Hold(Hold&&) noexcept = default;
  Hold& operator=(Hold&& other) noexcept;
  ~Hold() { release(); }
  void release();

 private:
  friend class Session;
  Hold(std::shared_ptr<Link> link, HoldId id) : link_(std::move(link)), id_(id) {}
  std::shared_ptr<Link> link_;
  HoldId id_;
};

class Actor {
 public:
  Actor(Actor&&) noexcept = default;
  Actor& operator=(Actor&&) = delete;
  ~Actor();  // the barrier waits for it no longer

  // Return the virtual time at which they return: at or after the target, or before it where
  // another thread has cancelled the wait. Throw InvalidDuration or SessionError.
  VirtualTime jump(VirtualDuration dt);
  VirtualTime wait_until(VirtualTime target);

  // The same in two steps, so that one thread can have many actors wait, and a receiver can
  // register its reaction before it lets go of a hold. A second start takes the first's place.
  void start_jump(VirtualDuration dt);
  void start_wait(VirtualTime target);
  VirtualTime finish_wait();

  // Ends the wait; once it returns, time stands still for this actor. False where the wait was
  // over already, or none was.
  bool cancel();

 private:
  friend class Session;
  Actor(std::shared_ptr<Link> link, ActorId id) : link_(std::move(link)), id_(id) {}
  std::shared_ptr<Link> link_;
  ActorId id_;
};

// A stamped message that has arrived. Time stands still until it is destroyed or released: first
// register what follows from it (start_wait), then let go.
struct Accepted {
  VirtualTime sent_at;
  std::vector<std::byte> payload;
  Hold hold;
};

class Session {
 public:
  // `path`: the session's folder on this host, or a bundle from another. Throws SessionError,
  // ProtocolMismatch, TokenRefused, BundleError or ZmqError.
  static Session connect(const std::filesystem::path& path, ConnectOptions options);

  // As this process knows it, without asking: for an actor that the barrier waits for, exact.
  VirtualTime now() const;
  VirtualTime ask_now();

  // `order` resolves ties at one instant under settle; then the order of creation does.
  Actor add_actor(const std::string& name, ActorKind kind = ActorKind::kActor,
                  std::uint64_t order = 0);
  Hold hold();
  std::string status_json();

  std::vector<std::byte> stamp(std::span<const std::byte> payload);
  Accepted accept(std::span<const std::byte> message);

 private:
  explicit Session(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  std::shared_ptr<Link> link_;
};

// Seconds as people and configuration files give them. Throws InvalidDuration for NaN, infinities,
// negative values and what the clock does not hold.
VirtualDuration virtual_seconds(double seconds);

}  // namespace warpserve::client
