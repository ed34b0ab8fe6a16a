// Channels through which the kernel carries the messages.
#pragma once

#include <memory>

#include "tests/programs/runner/channel.hpp"

namespace programs {

std::unique_ptr<Channel> make_tcp_channel();
std::unique_ptr<Channel> make_unix_channel();
std::unique_ptr<Channel> make_pipe_channel();
std::unique_ptr<Channel> make_socketpair_channel();

}  // namespace programs
