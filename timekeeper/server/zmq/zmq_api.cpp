#include "timekeeper/server/zmq/zmq_api.hpp"

#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace warpserve::zmq {
namespace {

constexpr int kDontWait = 1;
constexpr int kSendMore = 2;

constexpr char kRemedy[] =
    "; install pyzmq (pip install pyzmq) or libzmq5 and name the library in WARPSERVE_LIBZMQ";

template <class Function>
void resolve(void* handle, const char* symbol, const std::string& path, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, symbol));
  if (function == nullptr) {
    throw ZmqError(path + " has no " + symbol + ": it is no libzmq 4.x" + kRemedy);
  }
}

std::string library_path(const std::string& path) {
  if (!path.empty()) return path;
  const char* named = std::getenv("WARPSERVE_LIBZMQ");
  return named != nullptr && *named != '\0' ? named : "libzmq.so.5";
}

}  // namespace

std::shared_ptr<const Library> Library::load(const std::string& path) {
  const std::string chosen = library_path(path);
  void* handle = dlopen(chosen.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    throw ZmqError("cannot load libzmq from " + chosen + " (" + dlerror() + ")" + kRemedy);
  }
  return std::shared_ptr<const Library>(new Library(chosen, handle));
}

Library::Library(const std::string& path, void* handle) {
  Functions& f = functions_;
  resolve(handle, "zmq_ctx_new", path, f.ctx_new);
  resolve(handle, "zmq_ctx_term", path, f.ctx_term);
  resolve(handle, "zmq_socket", path, f.socket);
  resolve(handle, "zmq_close", path, f.close);
  resolve(handle, "zmq_bind", path, f.bind);
  resolve(handle, "zmq_connect", path, f.connect);
  resolve(handle, "zmq_setsockopt", path, f.setsockopt);
  resolve(handle, "zmq_getsockopt", path, f.getsockopt);
  resolve(handle, "zmq_send", path, f.send);
  resolve(handle, "zmq_poll", path, f.poll);
  resolve(handle, "zmq_msg_init", path, f.msg_init);
  resolve(handle, "zmq_msg_recv", path, f.msg_recv);
  resolve(handle, "zmq_msg_close", path, f.msg_close);
  resolve(handle, "zmq_msg_data", path, f.msg_data);
  resolve(handle, "zmq_msg_size", path, f.msg_size);
  resolve(handle, "zmq_msg_more", path, f.msg_more);
  resolve(handle, "zmq_msg_gets", path, f.msg_gets);
  resolve(handle, "zmq_curve_keypair", path, f.curve_keypair);
  resolve(handle, "zmq_z85_decode", path, f.z85_decode);
  resolve(handle, "zmq_has", path, f.has);
  resolve(handle, "zmq_strerror", path, f.strerror);
  resolve(handle, "zmq_version", path, f.version);
  int major = 0;
  int minor = 0;
  int patch = 0;
  f.version(&major, &minor, &patch);
  if (major != 4 || minor < 2) {
    throw ZmqError(path + " is libzmq " + std::to_string(major) + "." + std::to_string(minor) +
                   "; 4.2 or a later 4.x is needed" + kRemedy);
  }
}

void Library::fail(std::string_view what) const {
  throw ZmqError(std::string(what) + ": " + functions_.strerror(errno));
}

Part::Part(const Library& library) : zmq_(library.functions()) {
  zmq_.msg_init(&raw_);
}
Part::~Part() {
  zmq_.msg_close(&raw_);
}

std::span<const std::byte> Part::bytes() const {
  return {static_cast<const std::byte*>(zmq_.msg_data(&raw_)), zmq_.msg_size(&raw_)};
}

std::string_view Part::text() const {
  return {static_cast<const char*>(zmq_.msg_data(&raw_)), zmq_.msg_size(&raw_)};
}

bool Part::more() const {
  return zmq_.msg_more(&raw_) != 0;
}

std::string_view Part::property(const char* name) const {
  const char* value = zmq_.msg_gets(&raw_, name);
  return value == nullptr ? std::string_view() : value;
}

Context::Context(std::shared_ptr<const Library> library)
    : library_(std::move(library)), raw_(library_->functions().ctx_new()) {
  if (raw_ == nullptr) library_->fail("cannot create a ZeroMQ context");
}

Context::~Context() {
  library_->functions().ctx_term(raw_);
}

Socket::Socket(const Context& context, SocketType type)
    : library_(context.library()),
      raw_(library_.functions().socket(context.raw(), static_cast<int>(type))) {
  if (raw_ == nullptr) library_.fail("cannot create a ZeroMQ socket");
}

Socket::~Socket() {
  library_.functions().close(raw_);
}

void Socket::set(Option option, int value) {
  if (library_.functions().setsockopt(raw_, static_cast<int>(option), &value, sizeof value) != 0) {
    library_.fail("cannot set ZeroMQ option " + std::to_string(static_cast<int>(option)));
  }
}

void Socket::set(Option option, std::int64_t value) {
  if (library_.functions().setsockopt(raw_, static_cast<int>(option), &value, sizeof value) != 0) {
    library_.fail("cannot set ZeroMQ option " + std::to_string(static_cast<int>(option)));
  }
}

void Socket::set(Option option, std::string_view value) {
  if (library_.functions().setsockopt(raw_, static_cast<int>(option), value.data(), value.size()) !=
      0) {
    library_.fail("cannot set ZeroMQ option " + std::to_string(static_cast<int>(option)));
  }
}

void Socket::bind(const std::string& endpoint) {
  if (library_.functions().bind(raw_, endpoint.c_str()) != 0) {
    library_.fail("cannot listen on " + endpoint);
  }
}

void Socket::connect(const std::string& endpoint) {
  if (library_.functions().connect(raw_, endpoint.c_str()) != 0) {
    library_.fail("cannot connect to " + endpoint);
  }
}

std::string Socket::last_endpoint() const {
  std::array<char, 256> endpoint{};
  std::size_t size = endpoint.size();
  if (library_.functions().getsockopt(raw_, static_cast<int>(Option::kLastEndpoint),
                                      endpoint.data(), &size) != 0) {
    library_.fail("cannot read the address of a ZeroMQ socket");
  }
  return endpoint.data();
}

bool Socket::receive(Part& part) {
  if (library_.functions().msg_recv(&part.raw_, raw_, kDontWait) >= 0) return true;
  if (errno == EAGAIN || errno == EINTR) return false;
  library_.fail("cannot receive from a ZeroMQ socket");
}

SendResult Socket::send(std::span<const std::byte> bytes, bool more) {
  const int flags = kDontWait | (more ? kSendMore : 0);
  for (;;) {
    if (library_.functions().send(raw_, bytes.data(), bytes.size(), flags) >= 0) {
      return SendResult::kSent;
    }
    if (errno == EAGAIN) return SendResult::kFull;
    if (errno == EHOSTUNREACH) return SendResult::kNoSuchPeer;
    if (errno != EINTR) library_.fail("cannot send on a ZeroMQ socket");
  }
}

SendResult Socket::send(std::string_view bytes, bool more) {
  return send(std::as_bytes(std::span(bytes.data(), bytes.size())), more);
}

void poll(const Library& library, std::span<PollItem> items, long timeout_ms) {
  const int rc = library.functions().poll(items.data(), static_cast<int>(items.size()), timeout_ms);
  if (rc >= 0) return;
  if (errno != EINTR) library.fail("cannot poll ZeroMQ sockets");
  for (PollItem& item : items) item.revents = 0;
}

KeyPair make_key_pair(const Library& library) {
  std::array<char, 41> public_key{};
  std::array<char, 41> secret_key{};
  if (library.functions().curve_keypair(public_key.data(), secret_key.data()) != 0) {
    library.fail("cannot make CURVE keys");
  }
  return {public_key.data(), secret_key.data()};
}

}  // namespace warpserve::zmq
