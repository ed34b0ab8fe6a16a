// Channels whose messages lie in memory, and whose receiver is woken by a counter of some kind.
#pragma once

#include <memory>

#include "tests/programs/runner/channel.hpp"

namespace programs {

std::unique_ptr<Channel> make_eventfd_channel();
std::unique_ptr<Channel> make_semaphore_channel();
std::unique_ptr<Channel> make_futex_channel();
std::unique_ptr<Channel> make_shared_condition_channel();
std::unique_ptr<Channel> make_condition_channel();  // of one process only

}  // namespace programs
