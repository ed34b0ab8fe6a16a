#include "timekeeper/server/zmq/zap.hpp"

#include <vector>

#include "timekeeper/server/constant_time.hpp"

namespace warpserve {
namespace {

constexpr std::size_t kRequestId = 1;
constexpr std::size_t kDomain = 2;
constexpr std::size_t kMechanism = 5;
constexpr std::size_t kCredentials = 6;
constexpr std::size_t kFrames = 7;

}  // namespace

ZapHandler::ZapHandler(const zmq::Context& context, const std::string& client_public_key)
    : socket_(context, zmq::SocketType::kRep) {
  if (context.library().functions().z85_decode(client_key_.data(), client_public_key.c_str()) ==
      nullptr) {
    throw zmq::ZmqError("the client's CURVE key is not Z85");
  }
  socket_.bind("inproc://zeromq.zap.01");
}

void ZapHandler::serve() {
  for (;;) {
    std::vector<std::string> frames;
    for (bool more = true; more;) {
      zmq::Part part(socket_.library());
      if (!socket_.receive(part)) return;
      if (frames.size() < kFrames) frames.emplace_back(part.text());
      more = part.more();
    }
    frames.resize(kFrames);
    const bool admitted = frames[kDomain] == kZapDomain && frames[kMechanism] == "CURVE" &&
                          equal_in_constant_time(std::as_bytes(std::span(frames[kCredentials])),
                                                 std::as_bytes(std::span(client_key_)));
    answer(frames[kRequestId], admitted);
  }
}

void ZapHandler::answer(std::string_view request, bool admitted) {
  using namespace std::string_view_literals;
  const std::array<std::string_view, 6> frames = {
      "1.0"sv, request, admitted ? "200"sv : "400"sv, admitted ? "OK"sv : "not the session's key"sv,
      ""sv,    ""sv};
  for (std::size_t i = 0; i < frames.size(); ++i) socket_.send(frames[i], i + 1 < frames.size());
}

}  // namespace warpserve
