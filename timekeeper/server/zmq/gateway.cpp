#include "timekeeper/server/zmq/gateway.hpp"

#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "timekeeper/server/constant_time.hpp"
#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/host_clock.hpp"

namespace warpserve {
namespace {

constexpr int kSocketHighWater = 4096;        // messages; a reader that far behind loses broadcasts
constexpr int kBacklog = 256;                 // connections that wait to be accepted
constexpr int kHandshakeMs = 5'000;           // a connection that stalls longer is dropped
constexpr int kLingerMs = 200;                // for the last words at the end of a session
constexpr std::size_t kMessagesATurn = 4096;  // before replies and deaths get their turn
constexpr std::size_t kMaxSocketPath = 107;   // sockaddr_un

std::string local_endpoint(const std::filesystem::path& folder, const char* name) {
  const std::string path = (folder / name).string();
  if (path.size() > kMaxSocketPath) {
    throw zmq::ZmqError("the socket path " + path + " is longer than " +
                        std::to_string(kMaxSocketPath) +
                        " bytes; use a session folder with a shorter path");
  }
  return "ipc://" + path;
}

struct ListenAddress {
  std::string host;
  std::string port;

  // Where the second socket listens: any port, or the next one.
  std::string next_port() const {
    if (port == "*") return port;
    return std::to_string(std::stoi(port) + 1);
  }
  bool is_wildcard() const { return host == "*" || host == "0.0.0.0" || host == "[::]"; }
};

ListenAddress parse_listen(const std::string& listen) {
  constexpr std::string_view kScheme = "tcp://";
  const auto colon = listen.rfind(':');
  const bool has_scheme = listen.starts_with(kScheme);
  ListenAddress address;
  if (has_scheme && colon > kScheme.size()) {
    address = {listen.substr(kScheme.size(), colon - kScheme.size()), listen.substr(colon + 1)};
  }
  int number = 0;
  const char* end = address.port.data() + address.port.size();
  const bool numeric =
      std::from_chars(address.port.data(), end, number).ptr == end && number > 0 && number < 65'535;
  if (address.host.empty() || !(address.port == "*" || numeric)) {
    throw zmq::ZmqError("cannot listen on `" + listen +
                        "`: expected tcp://ADDRESS:PORT or tcp://ADDRESS:*");
  }
  return address;
}

// The endpoint that others connect to.
std::string advertised(const zmq::Socket& socket, const std::string& host) {
  const std::string bound = socket.last_endpoint();
  return "tcp://" + host + bound.substr(bound.rfind(':'));
}

// libzmq says "localhost:uid:gid:pid" of a local peer, from SO_PEERCRED, and the numeric address of
// any other. 0: not local.
std::uint32_t pid_of_address(std::string_view address) {
  if (!address.starts_with("localhost:")) return 0;
  std::uint32_t pid = 0;
  std::from_chars(address.data() + address.rfind(':') + 1, address.data() + address.size(), pid);
  return pid;
}

}  // namespace

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)),
      library_(zmq::Library::load(options_.libzmq_path)),
      context_(library_),
      router_(context_, zmq::SocketType::kRouter),
      publisher_(context_, zmq::SocketType::kPub),
      table_(options_.limits),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_fd_.valid()) throw os_error("eventfd");
  for (zmq::Socket* socket : {&router_, &publisher_}) {
    socket->set(zmq::Option::kSendHighWater, kSocketHighWater);
    socket->set(zmq::Option::kReceiveHighWater, kSocketHighWater);
    socket->set(zmq::Option::kMaxMessageBytes, static_cast<std::int64_t>(wire::kMaxMessageBytes));
    socket->set(zmq::Option::kBacklog, kBacklog);
    socket->set(zmq::Option::kHandshakeMs, kHandshakeMs);
    socket->set(zmq::Option::kLinger, kLingerMs);
  }
  router_.set(zmq::Option::kRouterMandatory, 1);
  listen_locally();
  if (!options_.listen.empty()) listen_on_network();
  thread_ = std::thread([this] { run(); });
}

Gateway::~Gateway() {
  stopping_ = true;
  eventfd_write(wake_fd_.get(), 1);
  thread_.join();
}

void Gateway::listen_locally() {
  ConnectionBundle bundle;
  bundle.requests_endpoint = local_endpoint(options_.session_folder, "requests.ipc");
  bundle.updates_endpoint = local_endpoint(options_.session_folder, "updates.ipc");
  bundle.token = to_hex(options_.token.data(), options_.token.size());
  router_.bind(bundle.requests_endpoint);
  publisher_.bind(bundle.updates_endpoint);
  write_bundle(options_.session_folder / kLocalBundleFile, bundle);
}

// Socket options count for what is bound after they are set: the local sockets stay as they are.
void Gateway::listen_on_network() {
  if (!library_->has_curve()) {
    throw zmq::ZmqError(
        "this libzmq has no CURVE, and the network is never used without encryption; use the "
        "library of the pyzmq wheel");
  }
  const ListenAddress address = parse_listen(options_.listen);
  const std::string host =
      options_.advertised_host.empty() ? address.host : options_.advertised_host;
  if (address.is_wildcard() && options_.advertised_host.empty()) {
    throw zmq::ZmqError("cannot tell other hosts to connect to `" + options_.listen +
                        "`; name the address that they reach this host by");
  }
  const zmq::KeyPair server = zmq::make_key_pair(*library_);
  const zmq::KeyPair client = zmq::make_key_pair(*library_);
  zap_.emplace(context_, client.public_key);
  for (zmq::Socket* socket : {&router_, &publisher_}) {
    socket->set(zmq::Option::kZapDomain, std::string_view(kZapDomain));
    socket->set(zmq::Option::kCurveServer, 1);
    socket->set(zmq::Option::kCurveSecretKey, std::string_view(server.secret_key));
  }
  router_.bind("tcp://" + address.host + ":" + address.port);
  publisher_.bind("tcp://" + address.host + ":" + address.next_port());

  ConnectionBundle bundle;
  bundle.requests_endpoint = advertised(router_, host);
  bundle.updates_endpoint = advertised(publisher_, host);
  bundle.token = to_hex(options_.token.data(), options_.token.size());
  bundle.server_public_key = server.public_key;
  bundle.client_public_key = client.public_key;
  bundle.client_secret_key = client.secret_key;
  write_bundle(options_.session_folder / kRemoteBundleFile, bundle);
}

// --- The owner's side ---------------------------------------------------------------------------

void Gateway::drain(std::vector<Request>& requests) {
  requests.clear();
  const std::lock_guard lock(inbox_mutex_);
  requests.swap(inbox_);
  drains_.fetch_add(1, std::memory_order_relaxed);
}

void Gateway::reply(PeerId peer, const wire::Envelope& envelope) {
  Answer answer{.peer = peer,
                .type = std::visit([](const auto& body) { return body.kType; }, envelope.message),
                .member = envelope.header.member,
                .actor = envelope.header.actor,
                .hold = {},
                .sequence = 0,
                .bytes = wire::encode(envelope)};
  if (const auto* held = std::get_if<wire::Held>(&envelope.message)) answer.hold = held->hold;
  if (const auto* time = std::get_if<wire::Time>(&envelope.message)) {
    answer.sequence = time->sequence;
  }
  post(std::move(answer));
}

// A round that the I/O thread has not sent yet is overtaken by the next one where that loses no
// wake-up: so a slow I/O thread cannot make the outbox grow.
void Gateway::publish(const wire::Tick& tick, std::vector<wire::Wait> over) {
  {
    const std::lock_guard lock(outbox_mutex_);
    Round* last = outbox_.empty() ? nullptr : std::get_if<Round>(&outbox_.back());
    if (last != nullptr && (tick.woken == wire::kAllDue || last->over.empty())) {
      last->tick = tick;
      last->over.insert(last->over.end(), over.begin(), over.end());
      return;
    }
  }
  post(Round{tick, std::move(over)});
}

void Gateway::end(std::string_view reason) {
  post(Ending{std::string(reason)});
}

void Gateway::post(Outgoing outgoing) {
  bool was_empty = false;
  {
    const std::lock_guard lock(outbox_mutex_);
    was_empty = outbox_.empty();
    outbox_.push_back(std::move(outgoing));
  }
  if (was_empty) eventfd_write(wake_fd_.get(), 1);
}

// --- The I/O thread -----------------------------------------------------------------------------

void Gateway::run() {
  try {
    while (!stopping_) turn();
    send_outgoing();
  } catch (const std::exception& error) {
    arrived_.emplace_back(GatewayFailed{error.what()});
    deliver_requests();
  }
}

void Gateway::turn() {
  std::array<zmq::PollItem, 4> items = {
      router_.poll_item(), zmq::PollItem{nullptr, wake_fd_.get(), zmq::kPollIn, 0},
      zmq::PollItem{nullptr, exits_.fd(), zmq::kPollIn, 0}, zmq::PollItem{}};
  std::size_t count = 3;
  if (zap_) items[count++] = zap_->poll_item();
  // Only members that are not watched need the timer: an idle local session does not wake up.
  const long timeout_ms =
      table_.has_unwatched() ? options_.heartbeat_interval.ns() / 1'000'000 : -1;
  zmq::poll(*library_, std::span(items.data(), count), timeout_ms);

  if (items[1].revents != 0) {
    eventfd_t rings = 0;
    eventfd_read(wake_fd_.get(), &rings);
  }
  if (zap_ && items[3].revents != 0) zap_->serve();
  receive_requests();
  if (items[2].revents != 0) bury_exited();
  bury_silent();
  deliver_requests();
  send_outgoing();
  bury_unreachable();
  deliver_requests();
}

void Gateway::receive_requests() {
  for (std::size_t i = 0; i < kMessagesATurn; ++i) {
    zmq::Part routing(*library_);
    if (!router_.receive(routing)) return;
    zmq::Part body(*library_);
    if (!routing.more() || !router_.receive(body)) continue;
    const bool more = body.more();
    for (bool rest = more; rest;) {
      zmq::Part surplus(*library_);
      rest = router_.receive(surplus) && surplus.more();
    }
    receive_one(routing.text(), body.bytes(), more, body.property("Peer-Address"));
  }
}

void Gateway::receive_one(std::string_view routing, std::span<const std::byte> bytes, bool more,
                          std::string_view address) {
  if (more) return answer_malformed(routing, {wire::Fault::kTrailingBytes, wire::kVersion});
  const auto decoded = wire::decode(bytes);
  if (const auto* malformed = std::get_if<wire::Malformed>(&decoded)) {
    return answer_malformed(routing, *malformed);
  }
  const auto& envelope = std::get<wire::Envelope>(decoded);
  Peer* peer = table_.find(routing);
  if (peer == nullptr) return answer_stranger(routing, envelope, address);
  peer->last_heard = host_now();
  handle(*peer, envelope);
}

void Gateway::answer_malformed(std::string_view routing, const wire::Malformed& malformed) {
  wire::Envelope answer;
  if (malformed.fault == wire::Fault::kOtherVersion) {
    answer.message = wire::Refused{
        wire::Refusal::kOtherVersion, malformed.version, wire::kVersion,
        wire::Line::cut("your protocol version is " + std::to_string(malformed.version) +
                        ", the Timekeeper's is " + std::to_string(wire::kVersion) +
                        "; use the same warpserve on both sides")};
  } else {
    answer.message =
        wire::Error{wire::ErrorCode::kMalformed, wire::Line::cut(wire::describe(malformed.fault))};
  }
  send_to(routing, wire::encode(answer));
}

void Gateway::answer_stranger(std::string_view routing, const wire::Envelope& envelope,
                              std::string_view address) {
  if (std::holds_alternative<wire::Hello>(envelope.message)) {
    return admit(routing, envelope, address);
  }
  if (std::holds_alternative<wire::Goodbye>(envelope.message)) return;
  wire::Envelope answer{{{}, {}, envelope.header.request},
                        wire::Error{wire::ErrorCode::kNotAMember,
                                    wire::Line::cut("not a member (any more): say hello first")}};
  send_to(routing, wire::encode(answer));
}

void Gateway::admit(std::string_view routing, const wire::Envelope& envelope,
                    std::string_view address) {
  const auto& hello = std::get<wire::Hello>(envelope.message);
  const auto refuse = [&](wire::Refusal code, std::string_view text) {
    const wire::Envelope answer{
        {{}, {}, envelope.header.request},
        wire::Refused{code, wire::kVersion, wire::kVersion, wire::Line::cut(text)}};
    send_to(routing, wire::encode(answer));
  };
  if (!equal_in_constant_time(std::as_bytes(std::span(hello.token)),
                              std::as_bytes(std::span(options_.token)))) {
    return refuse(wire::Refusal::kWrongToken,
                  "the token is not this session's; copy the connection file again");
  }
  Peer* peer = ended_ ? nullptr : table_.add(std::string(routing), std::string(hello.name.view()));
  if (peer == nullptr) {
    return refuse(wire::Refusal::kSessionFull,
                  ended_ ? "the session has ended" : "the session has all the members it takes");
  }
  peer->last_heard = host_now();
  // The kernel, not the member, says who a local peer is: a pid is watched only if it is its own.
  const bool is_own_pid = hello.pid != 0 && hello.pid == pid_of_address(address);
  table_.set_watched(*peer,
                     is_own_pid && exits_.add(peer->id.value, static_cast<pid_t>(hello.pid)));
  pass_on(
      *peer, envelope.header,
      MemberJoined{{peer->id, envelope.header.request}, peer->name, peer->watched ? hello.pid : 0});
}

void Gateway::handle(Peer& peer, const wire::Envelope& envelope) {
  const wire::Header& header = envelope.header;
  const Ticket ticket{peer.id, header.request};
  if (peer.member.value == 0 || header.member != peer.member) {
    return send_error(peer, header, wire::ErrorCode::kNotAMember,
                      "the message names another member than this connection's");
  }
  if (const auto* wait = std::get_if<wire::WaitUntil>(&envelope.message)) {
    handle_wait(peer, wait->waits);
  } else if (const auto* now = std::get_if<wire::Now>(&envelope.message)) {
    handle_now(peer, header, now->sequence);
  } else if (std::holds_alternative<wire::Heartbeat>(envelope.message)) {
    handle_now(peer, header, 0);
  } else if (const auto* cancel = std::get_if<wire::Cancel>(&envelope.message)) {
    handle_actor(peer, header, CancelAsked{ticket, header.actor, cancel->sequence});
  } else if (std::holds_alternative<wire::RemoveActor>(envelope.message)) {
    if (handle_actor(peer, header, ActorGivenUp{ticket, header.actor})) {
      table_.remove_actor(peer, header.actor);
    }
  } else if (const auto* release = std::get_if<wire::Release>(&envelope.message)) {
    handle_release(peer, header, release->hold);
  } else if (const auto* add = std::get_if<wire::AddActor>(&envelope.message)) {
    handle_add(peer, header, *add);
  } else if (std::holds_alternative<wire::Hold>(envelope.message)) {
    handle_hold(peer, header);
  } else if (std::holds_alternative<wire::Status>(envelope.message)) {
    pass_on(peer, header, StatusAsked{ticket});
  } else if (std::holds_alternative<wire::Goodbye>(envelope.message)) {
    bury(peer.id, /*died=*/false, "left");
  } else {
    send_error(peer, header, wire::ErrorCode::kUnexpected,
               "a member may not send a message of this type");
  }
}

void Gateway::handle_add(Peer& peer, const wire::Header& header, const wire::AddActor& add) {
  if (!table_.has_actor_place(peer)) {
    return send_error(peer, header, wire::ErrorCode::kTooManyActors,
                      "this member has all the actors that one member may have");
  }
  const bool passed = pass_on(
      peer, header,
      ActorAsked{{peer.id, header.request}, std::string(add.name.view()), add.kind, add.order});
  if (passed) ++peer.actors;
}

void Gateway::handle_hold(Peer& peer, const wire::Header& header) {
  if (!table_.has_hold_place(peer)) {
    return send_error(peer, header, wire::ErrorCode::kTooManyHolds,
                      "this member has all the holds that one member may have");
  }
  if (pass_on(peer, header, HoldAsked{{peer.id, header.request}})) ++peer.holds;
}

void Gateway::handle_wait(Peer& peer, const wire::WaitList& waits) {
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const wire::Wait wait = waits[i];
    const wire::Header about{peer.member, wait.actor, 0};
    if (!table_.owns(peer.id, wait.actor)) {
      send_error(peer, about, wire::ErrorCode::kUnknownActor, "this member has no such actor");
    } else if (!table_.begin_wait(wait.actor, wait.sequence)) {
      send_error(peer, about, wire::ErrorCode::kStaleSequence,
                 "a later wait of this actor has arrived before");
    } else {
      pass_on(peer, about, WaitAsked{peer.id, wait});
    }
  }
}

bool Gateway::handle_actor(Peer& peer, const wire::Header& header, Request request) {
  if (table_.owns(peer.id, header.actor)) return pass_on(peer, header, std::move(request));
  send_error(peer, header, wire::ErrorCode::kUnknownActor, "this member has no such actor");
  return false;
}

void Gateway::handle_now(Peer& peer, const wire::Header& header, std::uint64_t sequence) {
  const wire::WaitState state =
      sequence == 0 ? wire::WaitState::kNone : table_.wait_state(header.actor, sequence);
  send_to(peer, wire::encode({{peer.member, header.actor, header.request},
                              wire::Time{options_.clock(), sequence, state}}));
}

void Gateway::handle_release(Peer& peer, const wire::Header& header, HoldId hold) {
  if (!table_.knows_hold(hold)) {
    return send_error(peer, header, wire::ErrorCode::kUnknownHold,
                      "there is no such hold: released before, or its owner has died");
  }
  if (pass_on(peer, header, HoldReleased{{peer.id, header.request}, hold})) {
    table_.remove_hold(hold);
  }
}

bool Gateway::pass_on(Peer& peer, const wire::Header& header, Request request) {
  if (!table_.take_queue_place(peer, drains_.load(std::memory_order_relaxed))) {
    send_error(peer, header, wire::ErrorCode::kTooManyRequests,
               "this member sends faster than the Timekeeper can take");
    return false;
  }
  arrived_.push_back(std::move(request));
  return true;
}

void Gateway::deliver_requests() {
  if (arrived_.empty()) return;
  {
    const std::lock_guard lock(inbox_mutex_);
    std::move(arrived_.begin(), arrived_.end(), std::back_inserter(inbox_));
  }
  arrived_.clear();
  options_.doorbell();
}

// --- Sending ------------------------------------------------------------------------------------

void Gateway::send_outgoing() {
  std::deque<Outgoing> outgoing;
  {
    const std::lock_guard lock(outbox_mutex_);
    outgoing.swap(outbox_);
  }
  for (const Outgoing& item : outgoing) {
    std::visit([this](const auto& what) { send_out(what); }, item);
  }
}

void Gateway::send_out(const Answer& answer) {
  Peer* peer = table_.find(answer.peer);
  if (peer == nullptr) return;
  note(*peer, answer);
  send_to(*peer, answer.bytes);
}

void Gateway::send_out(const Round& round) {
  for (const wire::Wait& wait : round.over) table_.end_wait(wait.actor, wait.sequence);
  publisher_.send(wire::encode({{}, round.tick}));
}

void Gateway::send_out(const Ending& ending) {
  ended_ = true;
  for (const PeerId id : table_.peers()) {
    Peer* peer = table_.find(id);
    send_error(*peer, {peer->member, {}, 0}, wire::ErrorCode::kSessionEnded, ending.reason);
  }
  publisher_.send(wire::encode({{}, wire::Tick{0, options_.clock(), wire::kAllDue, 1}}));
}

// What the owner has decided becomes part of the ledger.
void Gateway::note(Peer& peer, const Answer& answer) {
  switch (answer.type) {
    case wire::Type::kWelcome:
      peer.member = answer.member;
      break;
    case wire::Type::kActorAdded:
      table_.add_actor(answer.actor, peer.id);
      break;
    case wire::Type::kHeld:
      table_.add_hold(answer.hold, peer.id);
      break;
    case wire::Type::kTime:
      table_.end_wait(answer.actor, answer.sequence);
      break;
    default:
      break;
  }
}

void Gateway::send_error(Peer& peer, const wire::Header& header, wire::ErrorCode code,
                         std::string_view text) {
  send_to(peer, wire::encode({{peer.member, header.actor, header.request},
                              wire::Error{code, wire::Line::cut(text)}}));
}

void Gateway::send_to(Peer& peer, std::span<const std::byte> bytes) {
  if (send_to(peer.routing, bytes) != zmq::SendResult::kSent) unreachable_.push_back(peer.id);
}

zmq::SendResult Gateway::send_to(std::string_view routing, std::span<const std::byte> bytes) {
  const zmq::SendResult result = router_.send(routing, /*more=*/true);
  return result == zmq::SendResult::kSent ? router_.send(bytes) : result;
}

// --- Deaths -------------------------------------------------------------------------------------

void Gateway::bury_exited() {
  for (const std::uint64_t key : exits_.exited()) bury(PeerId{key}, true, "its process has died");
}

void Gateway::bury_silent() {
  const HostTime now = host_now();
  if (now < next_silence_check_) return;
  next_silence_check_ = now + options_.heartbeat_interval;
  for (const PeerId id : table_.peers()) {
    const Peer* peer = table_.find(id);
    if (peer->watched || now - peer->last_heard < options_.silence_limit) continue;
    bury(id, true,
         "nothing heard for " + std::to_string((now - peer->last_heard).ns() / 1'000'000) +
             " ms: its process has died or is stopped, or the network is down");
  }
}

// A member whose connection is gone, or who does not read what it is sent.
void Gateway::bury_unreachable() {
  for (const PeerId id : std::exchange(unreachable_, {})) {
    bury(id, true, "its connection is lost, or it does not read its replies");
  }
}

void Gateway::bury(PeerId peer, bool died, std::string reason) {
  if (table_.find(peer) == nullptr) return;
  exits_.remove(peer.value);
  table_.remove(peer);
  arrived_.emplace_back(MemberLeft{peer, died, std::move(reason)});
}

}  // namespace warpserve
