// The few functions of libzmq that we use, loaded at run time: no headers are needed to build.
//
// The ABI of libzmq 4.x is stable; names and numbers are those of its zmq.h (4.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace warpserve::zmq {

// What went wrong and what to do about it.
class ZmqError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class SocketType : int { kPub = 1, kSub = 2, kRep = 4, kDealer = 5, kRouter = 6 };

enum class Option : int {
  kSubscribe = 6,
  kReceiveMore = 13,
  kLinger = 17,
  kBacklog = 19,
  kMaxMessageBytes = 22,
  kSendHighWater = 23,
  kReceiveHighWater = 24,
  kLastEndpoint = 32,
  kRouterMandatory = 33,
  kImmediate = 39,
  kCurveServer = 47,
  kCurvePublicKey = 48,
  kCurveSecretKey = 49,
  kCurveServerKey = 50,
  kZapDomain = 55,
  kHandshakeMs = 66,
};

inline constexpr short kPollIn = 1;
inline constexpr short kPollOut = 2;

// zmq_pollitem_t.
struct PollItem {
  void* socket = nullptr;
  int fd = -1;
  short events = kPollIn;
  short revents = 0;
};

// zmq_msg_t is 64 bytes on every ABI of 4.x.
struct alignas(8) RawMessage {
  unsigned char opaque[64];
};

struct Functions {
  void* (*ctx_new)();
  int (*ctx_term)(void*);
  void* (*socket)(void*, int);
  int (*close)(void*);
  int (*bind)(void*, const char*);
  int (*connect)(void*, const char*);
  int (*setsockopt)(void*, int, const void*, std::size_t);
  int (*getsockopt)(void*, int, void*, std::size_t*);
  int (*send)(void*, const void*, std::size_t, int);
  int (*poll)(PollItem*, int, long);
  int (*msg_init)(RawMessage*);
  int (*msg_recv)(RawMessage*, void*, int);
  int (*msg_close)(RawMessage*);
  void* (*msg_data)(RawMessage*);
  std::size_t (*msg_size)(const RawMessage*);
  int (*msg_more)(const RawMessage*);
  const char* (*msg_gets)(const RawMessage*, const char*);
  int (*curve_keypair)(char*, char*);
  std::uint8_t* (*z85_decode)(std::uint8_t*, const char*);
  int (*has)(const char*);
  const char* (*strerror)(int);
  void (*version)(int*, int*, int*);
};

// libzmq, for the life of the process: a library with threads of its own is never unloaded.
class Library {
 public:
  // `path` empty: $WARPSERVE_LIBZMQ, else libzmq.so.5 as the loader finds it. Throws ZmqError.
  static std::shared_ptr<const Library> load(const std::string& path);

  const Functions& functions() const { return functions_; }
  bool has_curve() const { return functions_.has("curve") == 1; }
  // The last error of this thread, in words, behind `what`.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  Library(const std::string& path, void* handle);
  Functions functions_{};
};

// One part of a message.
class Part {
 public:
  explicit Part(const Library& library);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  std::span<const std::byte> bytes() const;
  std::string_view text() const;
  bool more() const;
  // A property of the connection that it came by ("Peer-Address"), empty where there is none.
  std::string_view property(const char* name) const;

 private:
  friend class Socket;
  const Functions& zmq_;
  mutable RawMessage raw_{};
};

class Context {
 public:
  explicit Context(std::shared_ptr<const Library> library);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Library& library() const { return *library_; }
  void* raw() const { return raw_; }

 private:
  std::shared_ptr<const Library> library_;
  void* raw_;
};

enum class SendResult : std::uint8_t { kSent, kFull, kNoSuchPeer };

// A socket of one thread. No call blocks.
class Socket {
 public:
  Socket(const Context& context, SocketType type);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void set(Option option, int value);
  void set(Option option, std::int64_t value);
  void set(Option option, std::string_view value);
  void bind(const std::string& endpoint);
  void connect(const std::string& endpoint);
  std::string last_endpoint() const;

  bool receive(Part& part);  // false: nothing there
  SendResult send(std::span<const std::byte> bytes, bool more = false);
  SendResult send(std::string_view bytes, bool more = false);

  PollItem poll_item(short events = kPollIn) const { return {raw_, -1, events, 0}; }
  const Library& library() const { return library_; }

 private:
  const Library& library_;
  void* raw_;
};

// Waits for any item, at most `timeout_ms` (-1: for ever); an interrupted wait counts as over.
void poll(const Library& library, std::span<PollItem> items, long timeout_ms);

// A CURVE key pair in Z85, 40 characters each.
struct KeyPair {
  std::string public_key;
  std::string secret_key;
};
KeyPair make_key_pair(const Library& library);

}  // namespace warpserve::zmq
