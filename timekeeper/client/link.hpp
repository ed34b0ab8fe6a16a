// A member's connection to the Timekeeper: one I/O thread with the sockets, the heartbeat, and the
// waits of all actors of this process.
#pragma once

#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "timekeeper/client/session.hpp"
#include "timekeeper/server/fd.hpp"
#include "timekeeper/server/zmq/connection_bundle.hpp"
#include "timekeeper/server/zmq/zmq_api.hpp"

namespace warpserve::client {

// The messages that answer one request: one, or a status in several.
using Reply = std::vector<std::vector<std::byte>>;

// One wait of one actor. The I/O thread ends it; whoever finishes the wait sleeps on `over`.
struct WaitCell {
  wire::Wait wait;
  std::atomic<std::uint32_t> over{0};
  VirtualTime ended_at;      // written before `over`
  std::exception_ptr error;  // likewise
};

class Link {
 public:
  Link(const ConnectionBundle& bundle, ConnectOptions options);
  ~Link();

  VirtualTime now() const;
  const wire::Welcome& welcome() const { return welcome_; }
  // The time at which a message was sent is a time that has been reached.
  void learn(VirtualTime now);

  // Sends, and waits for the reply. Throws what the Timekeeper's error means.
  Reply ask(ActorId actor, wire::Message message);
  void tell(ActorId actor, wire::Message message);

  void start_wait(ActorId actor, VirtualTime target);
  VirtualTime finish_wait(ActorId actor);
  bool cancel(ActorId actor);
  void forget(ActorId actor);

 private:
  struct Pending {
    std::promise<Reply> promise;
    Reply parts;
  };
  // What waits to be sent, in order; neighbouring waits share a message.
  using Outgoing = std::variant<wire::Wait, std::vector<std::byte>>;

  void connect(const ConnectionBundle& bundle);
  void say_hello(const ConnectionBundle& bundle);
  std::vector<std::byte> encode(ActorId actor, std::uint64_t request, wire::Message message) const;
  void post(Outgoing outgoing);  // with mutex_ held
  void ring();

  // In the I/O thread.
  void run();
  void turn();
  void send_heartbeat();
  void receive();
  void handle(std::span<const std::byte> bytes);
  void handle_tick(const wire::Tick& tick);
  void handle_time(const wire::Header& header, const wire::Time& time);
  void handle_error(const wire::Header& header, const wire::Error& error);
  void settle_promise(std::uint64_t request, std::span<const std::byte> bytes, bool last);
  void end_waits(ActorId only, VirtualTime now);
  void end_wait(WaitCell& cell, VirtualTime now);
  void ask_again();
  void flush();
  bool send(std::span<const std::byte> bytes);
  void arm_timer();
  void fail_all(std::exception_ptr error);

  bool carries_itself() const { return welcome_.mode != ClockMode::kExact; }

  ConnectOptions options_;
  zmq::Context context_;
  zmq::Socket requests_;
  zmq::Socket updates_;
  Fd wake_fd_;
  Fd timer_fd_;  // kLive, kSleep: when host time reaches the next target
  wire::Welcome welcome_;
  MemberId member_;

  // kExact: the latest virtual time heard of. Else: virtual time minus host time, at least.
  std::atomic<std::int64_t> value_ns_{0};

  std::mutex mutex_;
  std::vector<Outgoing> outbox_;
  std::uint64_t next_request_ = 1;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::unordered_map<std::uint32_t, std::shared_ptr<WaitCell>> waits_;
  std::unordered_map<std::uint32_t, std::uint64_t> sequences_;
  std::exception_ptr ended_;

  // The I/O thread's own.
  std::vector<Outgoing> unsent_;
  std::int64_t unanswered_heartbeats_ = 0;
  HostTime next_heartbeat_;
  HostTime next_reask_;

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace warpserve::client
