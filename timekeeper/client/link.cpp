#include "timekeeper/client/link.hpp"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/host_clock.hpp"

namespace warpserve::client {
namespace {

constexpr int kHighWater = 65'536;  // messages
constexpr std::int64_t kMaxMessageBytes = wire::kMaxMessageBytes;

long milliseconds_until(HostTime time) {
  return std::max<long>(0, static_cast<long>((time - host_now()).ns() / 1'000'000) + 1);
}

std::exception_ptr to_exception(const wire::Error& error) {
  const std::string text(error.text.view());
  const bool ended = error.code == wire::ErrorCode::kSessionEnded;
  return ended ? std::make_exception_ptr(SessionEnded(text))
               : std::make_exception_ptr(SessionError(text));
}

[[noreturn]] void throw_refusal(const wire::Refused& refused) {
  const std::string text(refused.text.view());
  if (refused.code == wire::Refusal::kOtherVersion) throw ProtocolMismatch(text);
  if (refused.code == wire::Refusal::kWrongToken) throw TokenRefused(text);
  throw SessionError(text);
}

[[noreturn]] void throw_malformed(const wire::Malformed& malformed) {
  if (malformed.fault != wire::Fault::kOtherVersion) {
    throw SessionError("the Timekeeper's answer: " + std::string(wire::describe(malformed.fault)));
  }
  throw ProtocolMismatch("this client's protocol version is " + std::to_string(wire::kVersion) +
                         ", the Timekeeper's is " + std::to_string(malformed.version) +
                         "; use the same warpserve on both sides");
}

}  // namespace

Link::Link(const ConnectionBundle& bundle, ConnectOptions options)
    : options_(std::move(options)),
      context_(zmq::Library::load(options_.libzmq_path)),
      requests_(context_, zmq::SocketType::kDealer),
      updates_(context_, zmq::SocketType::kSub),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!wake_fd_.valid() || !timer_fd_.valid()) throw os_error("eventfd or timerfd_create");
  connect(bundle);
  say_hello(bundle);
  next_heartbeat_ = host_now() + welcome_.heartbeat_interval;
  next_reask_ = host_now() + options_.reask_interval;
  learn(welcome_.now);
  thread_ = std::thread([this] { run(); });
}

Link::~Link() {
  {
    const std::lock_guard lock(mutex_);
    post(encode({}, 0, wire::Goodbye{}));
    stopping_ = true;
  }
  ring();
  thread_.join();
}

void Link::connect(const ConnectionBundle& bundle) {
  constexpr int kLingerMs = 200;  // for the goodbye
  for (zmq::Socket* socket : {&requests_, &updates_}) {
    socket->set(zmq::Option::kSendHighWater, kHighWater);
    socket->set(zmq::Option::kReceiveHighWater, kHighWater);
    socket->set(zmq::Option::kMaxMessageBytes, kMaxMessageBytes);
    socket->set(zmq::Option::kImmediate, 1);
    socket->set(zmq::Option::kLinger, kLingerMs);
    if (!bundle.encrypted()) continue;
    socket->set(zmq::Option::kCurveServerKey, std::string_view(bundle.server_public_key));
    socket->set(zmq::Option::kCurvePublicKey, std::string_view(bundle.client_public_key));
    socket->set(zmq::Option::kCurveSecretKey, std::string_view(bundle.client_secret_key));
  }
  updates_.set(zmq::Option::kSubscribe, std::string_view());
  requests_.connect(bundle.requests_endpoint);
  updates_.connect(bundle.updates_endpoint);

  auto item = requests_.poll_item(zmq::kPollOut);
  zmq::poll(context_.library(), {&item, 1}, options_.timeout.ns() / 1'000'000);
  if (item.revents == 0) {
    throw SessionError("no Timekeeper answers at " + bundle.requests_endpoint +
                       (bundle.encrypted()
                            ? "; is the session running, can this host reach it, and is the "
                              "bundle of this very session?"
                            : "; is the session running?"));
  }
}

void Link::say_hello(const ConnectionBundle& bundle) {
  wire::Hello hello;
  from_hex(bundle.token, hello.token.data(), hello.token.size());
  const auto name = wire::Name::from(options_.name);
  if (!name) {
    throw SessionError("the member's name must be printable ASCII of at most " +
                       std::to_string(wire::kNameBytes - 1) + " characters");
  }
  hello.name = *name;
  hello.pid = static_cast<std::uint32_t>(getpid());
  requests_.send(wire::encode({{}, hello}));

  auto item = requests_.poll_item();
  zmq::poll(context_.library(), {&item, 1}, options_.timeout.ns() / 1'000'000);
  zmq::Part part(context_.library());
  if (!requests_.receive(part)) throw SessionError("the Timekeeper does not answer the hello");
  const auto decoded = wire::decode(part.bytes());
  if (const auto* malformed = std::get_if<wire::Malformed>(&decoded)) throw_malformed(*malformed);
  const auto& envelope = std::get<wire::Envelope>(decoded);
  if (const auto* refused = std::get_if<wire::Refused>(&envelope.message)) throw_refusal(*refused);
  const auto* welcome = std::get_if<wire::Welcome>(&envelope.message);
  if (welcome == nullptr)
    throw SessionError("the Timekeeper does not answer the hello as it should");
  welcome_ = *welcome;
  member_ = envelope.header.member;
}

// --- Any thread ---------------------------------------------------------------------------------

VirtualTime Link::now() const {
  const std::int64_t value = value_ns_.load(std::memory_order_acquire);
  return VirtualTime::from_ns(carries_itself() ? value + host_now().ns() : value);
}

void Link::learn(VirtualTime now) {
  const std::int64_t value = carries_itself() ? now.ns() - host_now().ns() : now.ns();
  std::int64_t known = value_ns_.load(std::memory_order_acquire);
  while (known < value && !value_ns_.compare_exchange_weak(known, value)) {
  }
}

std::vector<std::byte> Link::encode(ActorId actor, std::uint64_t request,
                                    wire::Message message) const {
  return wire::encode({{member_, actor, request}, std::move(message)});
}

void Link::post(Outgoing outgoing) {
  outbox_.push_back(std::move(outgoing));
}

void Link::ring() {
  eventfd_write(wake_fd_.get(), 1);
}

Reply Link::ask(ActorId actor, wire::Message message) {
  std::future<Reply> reply;
  std::uint64_t request = 0;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    request = next_request_++;
    reply = pending_[request].promise.get_future();
    post(encode(actor, request, std::move(message)));
  }
  ring();
  if (reply.wait_for(std::chrono::nanoseconds(options_.timeout.ns())) ==
      std::future_status::timeout) {
    const std::lock_guard lock(mutex_);
    pending_.erase(request);
    throw SessionError("the Timekeeper does not answer; see `warpserve status` on its host");
  }
  return reply.get();
}

void Link::tell(ActorId actor, wire::Message message) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    post(encode(actor, 0, std::move(message)));
  }
  ring();
}

void Link::start_wait(ActorId actor, VirtualTime target) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    std::shared_ptr<WaitCell>& cell = waits_[actor.value];
    if (cell) end_wait(*cell, now());
    cell = std::make_shared<WaitCell>();
    cell->wait = {actor, ++sequences_[actor.value], target};
    post(cell->wait);
  }
  ring();
}

VirtualTime Link::finish_wait(ActorId actor) {
  std::shared_ptr<WaitCell> cell;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waits_.find(actor.value);
    if (it == waits_.end()) throw SessionError("no wait has been started for this actor");
    cell = it->second;
  }
  cell->over.wait(0);
  const std::lock_guard lock(mutex_);
  const auto it = waits_.find(actor.value);
  if (it != waits_.end() && it->second == cell) waits_.erase(it);
  if (cell->error) std::rethrow_exception(cell->error);
  return cell->ended_at;
}

bool Link::cancel(ActorId actor) {
  std::shared_ptr<WaitCell> cell;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waits_.find(actor.value);
    if (it == waits_.end() || it->second->over.load() != 0) return false;
    cell = it->second;
  }
  const Reply reply = ask(actor, wire::Cancel{cell->wait.sequence});
  const auto decoded = wire::decode(reply.front());
  const auto& time = std::get<wire::Time>(std::get<wire::Envelope>(decoded).message);
  learn(time.now);
  const std::lock_guard lock(mutex_);
  end_wait(*cell, time.now);
  return time.state == wire::WaitState::kCancelled;
}

void Link::forget(ActorId actor) {
  const std::lock_guard lock(mutex_);
  waits_.erase(actor.value);
  sequences_.erase(actor.value);
}

// --- The I/O thread -----------------------------------------------------------------------------

void Link::run() {
  try {
    while (!stopping_) turn();
    flush();
    fail_all(std::make_exception_ptr(SessionEnded("this session has been closed")));
  } catch (...) {
    fail_all(std::current_exception());
  }
}

void Link::turn() {
  std::array<zmq::PollItem, 4> items = {
      requests_.poll_item(static_cast<short>(zmq::kPollIn | (unsent_.empty() ? 0 : zmq::kPollOut))),
      updates_.poll_item(), zmq::PollItem{nullptr, wake_fd_.get(), zmq::kPollIn, 0},
      zmq::PollItem{nullptr, timer_fd_.get(), zmq::kPollIn, 0}};
  zmq::poll(context_.library(), items, milliseconds_until(std::min(next_heartbeat_, next_reask_)));
  if (items[2].revents != 0) {
    eventfd_t rings = 0;
    eventfd_read(wake_fd_.get(), &rings);
  }
  receive();
  if (host_now() >= next_heartbeat_) send_heartbeat();
  ask_again();
  flush();
  if (carries_itself()) {
    end_waits({}, now());
    arm_timer();
  }
}

// Unanswered heartbeats are counted, not the time: a process that was stopped for a while has heard
// nothing, but has not asked either.
void Link::send_heartbeat() {
  if (unanswered_heartbeats_ * welcome_.heartbeat_interval.ns() >= welcome_.silence_limit.ns()) {
    throw SessionEnded("the Timekeeper is silent: it has died, or the network is down");
  }
  ++unanswered_heartbeats_;
  next_heartbeat_ = host_now() + welcome_.heartbeat_interval;
  tell({}, wire::Heartbeat{});
}

void Link::receive() {
  for (zmq::Socket* socket : {&updates_, &requests_}) {
    for (;;) {
      zmq::Part part(context_.library());
      if (!socket->receive(part)) break;
      handle(part.bytes());
    }
  }
}

void Link::handle(std::span<const std::byte> bytes) {
  unanswered_heartbeats_ = 0;
  const auto decoded = wire::decode(bytes);
  if (const auto* malformed = std::get_if<wire::Malformed>(&decoded)) throw_malformed(*malformed);
  const auto& [header, message] = std::get<wire::Envelope>(decoded);
  if (const auto* tick = std::get_if<wire::Tick>(&message)) return handle_tick(*tick);
  if (const auto* error = std::get_if<wire::Error>(&message)) return handle_error(header, *error);
  if (const auto* time = std::get_if<wire::Time>(&message)) handle_time(header, *time);
  const auto* status = std::get_if<wire::StatusReply>(&message);
  settle_promise(header.request, bytes, status == nullptr || status->index + 1 >= status->count);
}

void Link::handle_tick(const wire::Tick& tick) {
  if (options_.loses_tick && options_.loses_tick(tick)) return;
  learn(tick.now);
  if (tick.ended != 0) throw SessionEnded("the session has ended");
  end_waits(tick.woken, tick.now);
  next_reask_ = host_now() + options_.reask_interval;
}

void Link::handle_time(const wire::Header& header, const wire::Time& time) {
  learn(time.now);
  if (header.request != 0) return;  // asked by a caller, who deals with it
  if (time.sequence == 0) {
    // Under settle a due actor may still have to wait for its turn: only the Timekeeper knows.
    if (welcome_.guard == GuardKind::kBarrier) return end_waits({}, time.now);
    const std::lock_guard lock(mutex_);
    for (const auto& [actor, cell] : waits_) {
      if (cell->over.load() != 0 || cell->wait.target > time.now) continue;
      post(encode(ActorId{actor}, 0, wire::Now{cell->wait.sequence}));
    }
    return;
  }
  if (time.state == wire::WaitState::kPending) return;
  const std::lock_guard lock(mutex_);
  const auto it = waits_.find(header.actor.value);
  if (it == waits_.end() || it->second->wait.sequence != time.sequence) return;
  end_wait(*it->second, time.now);
}

void Link::handle_error(const wire::Header& header, const wire::Error& error) {
  const std::exception_ptr exception = to_exception(error);
  if (header.request != 0) {
    const std::lock_guard lock(mutex_);
    const auto node = pending_.extract(header.request);
    if (!node.empty()) node.mapped().promise.set_exception(exception);
    return;
  }
  if (header.actor.value == 0) std::rethrow_exception(exception);
  const std::lock_guard lock(mutex_);
  const auto it = waits_.find(header.actor.value);
  if (it == waits_.end()) return;
  it->second->error = exception;
  end_wait(*it->second, now());
}

void Link::settle_promise(std::uint64_t request, std::span<const std::byte> bytes, bool last) {
  const std::lock_guard lock(mutex_);
  const auto it = pending_.find(request);
  if (it == pending_.end()) return;
  it->second.parts.emplace_back(bytes.begin(), bytes.end());
  if (!last) return;
  it->second.promise.set_value(std::move(it->second.parts));
  pending_.erase(it);
}

// Ends what is due at `now`: of all actors, or of `only`.
void Link::end_waits(ActorId only, VirtualTime now) {
  const std::lock_guard lock(mutex_);
  for (const auto& [actor, cell] : waits_) {
    const bool meant = only == wire::kAllDue || only.value == actor;
    if (meant && cell->wait.target <= now) end_wait(*cell, now);
  }
}

void Link::end_wait(WaitCell& cell, VirtualTime now) {
  if (cell.over.load() != 0) return;
  cell.ended_at = now;
  cell.over.store(1);
  cell.over.notify_all();
}

// Broadcasts can be lost; whoever still waits after a while asks.
void Link::ask_again() {
  if (host_now() < next_reask_) return;
  next_reask_ = host_now() + options_.reask_interval;
  const std::lock_guard lock(mutex_);
  if (!waits_.empty()) post(encode({}, 0, wire::Now{}));
}

void Link::flush() {
  {
    const std::lock_guard lock(mutex_);
    std::move(outbox_.begin(), outbox_.end(), std::back_inserter(unsent_));
    outbox_.clear();
  }
  auto next = unsent_.begin();
  while (next != unsent_.end()) {
    if (const auto* bytes = std::get_if<std::vector<std::byte>>(&*next)) {
      if (!send(*bytes)) break;
      ++next;
      continue;
    }
    std::vector<wire::Wait> waits;
    auto end = next;
    for (; end != unsent_.end() && waits.size() < wire::kMaxWaits; ++end) {
      const auto* wait = std::get_if<wire::Wait>(&*end);
      if (wait == nullptr) break;
      waits.push_back(*wait);
    }
    const auto encoded = wire::encode_waits(waits);
    if (!send(encode({}, 0, wire::WaitUntil{wire::WaitList(encoded)}))) break;
    next = end;
  }
  unsent_.erase(unsent_.begin(), next);
}

bool Link::send(std::span<const std::byte> bytes) {
  return requests_.send(bytes) == zmq::SendResult::kSent;
}

void Link::arm_timer() {
  VirtualTime first = VirtualTime::max();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [actor, cell] : waits_) {
      if (cell->over.load() == 0) first = std::min(first, cell->wait.target);
    }
  }
  itimerspec timer{};
  if (first != VirtualTime::max()) {
    // Zero would disarm it; a time that has passed fires at once.
    const std::int64_t host_ns = first.ns() - value_ns_.load();
    timer.it_value = to_timespec(HostTime::from_ns(std::max<std::int64_t>(host_ns, 1)));
  }
  timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
}

void Link::fail_all(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  ended_ = error;
  for (auto& [request, pending] : pending_) pending.promise.set_exception(error);
  pending_.clear();
  for (const auto& [actor, cell] : waits_) {
    if (cell->over.load() != 0) continue;
    cell->error = error;
    end_wait(*cell, now());
  }
}

}  // namespace warpserve::client
