// Channels: how messages travel from one actor to another, of the same process or of another.
//
// One sender, one receiver, the order is kept. A message is one 64-bit number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace programs {

class Channel {
 public:
  virtual ~Channel() = default;
  virtual void send(std::int64_t payload) = 0;
  // `means` says by which call one waits (tests/programs/model.py lists them).
  virtual std::int64_t receive(const std::string& means) = 0;
  // Nothing where no message has come after `ns`.
  virtual std::optional<std::int64_t> receive_for(const std::string& means, std::int64_t ns) = 0;
};

// Made before the processes that use it are forked. Fails where no kind is called `kind`.
std::unique_ptr<Channel> make_channel(const std::string& kind);

}  // namespace programs
