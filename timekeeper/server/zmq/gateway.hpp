// The ZeroMQ road to the Timekeeper: requests fan in (ROUTER), updates fan out (PUB).
//
// An I/O thread of the gateway owns the sockets. It admits members, checks what they send against
// its ledger, answers what needs no Core, watches for deaths, and queues the rest for the thread
// that owns the Core. That thread calls `drain`, `reply` and `publish`, usually through RemoteRoad
// (remote_road.hpp).
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "timekeeper/core/types.hpp"
#include "timekeeper/server/fd.hpp"
#include "timekeeper/server/zmq/connection_bundle.hpp"
#include "timekeeper/server/zmq/exit_watch.hpp"
#include "timekeeper/server/zmq/peer_table.hpp"
#include "timekeeper/server/zmq/requests.hpp"
#include "timekeeper/server/zmq/wire.hpp"
#include "timekeeper/server/zmq/zap.hpp"
#include "timekeeper/server/zmq/zmq_api.hpp"

namespace warpserve {

struct GatewayOptions {
  std::filesystem::path session_folder;  // 0700; sockets and bundles go there
  std::string libzmq_path;               // empty: see zmq::Library::load
  wire::Token token{};
  wire::SessionId session{};
  ClockMode mode = ClockMode::kExact;
  GuardKind guard = GuardKind::kBarrier;
  std::int64_t realtime_epoch_ns = 0;

  // "tcp://ADDRESS:PORT", PORT `*` (any two) or a number (that one and the next); empty: this host
  // only. `advertised_host` is what other hosts connect to, needed where ADDRESS is a wildcard.
  std::string listen;
  std::string advertised_host;

  HostDuration heartbeat_interval = HostDuration::from_ms(1'000);
  HostDuration silence_limit = HostDuration::from_ms(5'000);
  GatewayLimits limits;

  std::function<VirtualTime()> clock;  // the virtual time at this moment; called by the I/O thread
  std::function<void()> doorbell;      // requests are queued; called by the I/O thread, fast
};

class Gateway {
 public:
  // Listens when it returns. Throws ZmqError or BundleError.
  explicit Gateway(GatewayOptions options);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // The owner's side; any thread, no call waits for the network.
  void drain(std::vector<Request>& requests);  // replaces the content, in order of arrival
  void reply(PeerId peer, const wire::Envelope& envelope);
  // One round. `over`: the waits of remote actors that it has woken.
  void publish(const wire::Tick& tick, std::vector<wire::Wait> over);
  // Tells every member; later requests are refused.
  void end(std::string_view reason);

  const GatewayOptions& options() const { return options_; }

 private:
  struct Answer {
    PeerId peer;
    wire::Type type;
    MemberId member;
    ActorId actor;
    HoldId hold;
    std::uint64_t sequence = 0;
    std::vector<std::byte> bytes;
  };
  struct Round {
    wire::Tick tick;
    std::vector<wire::Wait> over;
  };
  struct Ending {
    std::string reason;
  };
  using Outgoing = std::variant<Answer, Round, Ending>;

  void listen_locally();
  void listen_on_network();
  void post(Outgoing outgoing);

  // All below run in the I/O thread.
  void run();
  void turn();
  void receive_requests();
  void receive_one(std::string_view routing, std::span<const std::byte> bytes, bool more,
                   std::string_view address);
  void answer_stranger(std::string_view routing, const wire::Envelope& envelope,
                       std::string_view address);
  void answer_malformed(std::string_view routing, const wire::Malformed& malformed);
  void admit(std::string_view routing, const wire::Envelope& envelope, std::string_view address);
  void handle(Peer& peer, const wire::Envelope& envelope);
  void handle_wait(Peer& peer, const wire::WaitList& waits);
  // These two say whether the request is on its way to the owner.
  bool handle_actor(Peer& peer, const wire::Header& header, Request request);
  bool pass_on(Peer& peer, const wire::Header& header, Request request);
  void handle_add(Peer& peer, const wire::Header& header, const wire::AddActor& add);
  void handle_hold(Peer& peer, const wire::Header& header);
  void handle_now(Peer& peer, const wire::Header& header, std::uint64_t sequence);
  void handle_release(Peer& peer, const wire::Header& header, HoldId hold);
  void deliver_requests();

  void send_outgoing();
  void send_out(const Answer& answer);
  void send_out(const Round& round);
  void send_out(const Ending& ending);
  void note(Peer& peer, const Answer& answer);
  void send_error(Peer& peer, const wire::Header& header, wire::ErrorCode code,
                  std::string_view text);
  void send_to(Peer& peer, std::span<const std::byte> bytes);
  zmq::SendResult send_to(std::string_view routing, std::span<const std::byte> bytes);

  void bury_exited();
  void bury_silent();
  void bury(PeerId peer, bool died, std::string reason);
  void bury_unreachable();

  GatewayOptions options_;
  std::shared_ptr<const zmq::Library> library_;
  zmq::Context context_;
  std::optional<ZapHandler> zap_;
  zmq::Socket router_;
  zmq::Socket publisher_;

  PeerTable table_;
  ExitWatch exits_;
  std::vector<Request> arrived_;     // not yet given to the owner
  std::vector<PeerId> unreachable_;  // a send to them failed
  HostTime next_silence_check_;
  bool ended_ = false;

  std::mutex inbox_mutex_;
  std::vector<Request> inbox_;
  std::atomic<std::uint64_t> drains_{0};

  std::mutex outbox_mutex_;
  std::deque<Outgoing> outbox_;
  Fd wake_fd_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace warpserve
