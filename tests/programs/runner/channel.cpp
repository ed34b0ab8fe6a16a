#include "tests/programs/runner/channel.hpp"

#include <map>

#include "tests/programs/runner/descriptor_channels.hpp"
#include "tests/programs/runner/fail.hpp"
#include "tests/programs/runner/memory_channels.hpp"

namespace programs {

std::unique_ptr<Channel> make_channel(const std::string& kind) {
  static const std::map<std::string, std::unique_ptr<Channel> (*)()> kKinds = {
      {"tcp", make_tcp_channel},
      {"unix", make_unix_channel},
      {"pipe", make_pipe_channel},
      {"socketpair", make_socketpair_channel},
      {"eventfd", make_eventfd_channel},
      {"semaphore", make_semaphore_channel},
      {"futex", make_futex_channel},
      {"shared_condition", make_shared_condition_channel},
      {"condition", make_condition_channel},
  };
  const auto it = kKinds.find(kind);
  if (it == kKinds.end()) fail("no kind of channel is called " + kind);
  return it->second();
}

}  // namespace programs
