// The ZeroMQ authentication protocol (ZAP, rfc.zeromq.org/spec/27): admits over CURVE exactly the
// holder of one client key.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "timekeeper/server/zmq/zmq_api.hpp"

namespace warpserve {

inline constexpr char kZapDomain[] = "warpserve";

class ZapHandler {
 public:
  // `client_public_key`: Z85. Must exist before a CURVE socket of the context is bound.
  ZapHandler(const zmq::Context& context, const std::string& client_public_key);

  // Answers what has been asked.
  void serve();
  zmq::PollItem poll_item() const { return socket_.poll_item(); }

 private:
  void answer(std::string_view request, bool admitted);

  zmq::Socket socket_;
  std::array<std::uint8_t, 32> client_key_{};
};

}  // namespace warpserve
