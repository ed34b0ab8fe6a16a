// What the stall report says of whom (T8).
#include "timekeeper/server/session_state.hpp"

#include <string>

#include "tests/native/check.hpp"

namespace warpserve {
namespace {

TEST(a_stall_report_tells_remote_actors_from_threads_of_the_same_number) {
  SessionState state{};
  state.blocker = Blocker::kHeld;
  state.members.push_back({.id = 7,
                           .name = "server",
                           .virtual_clock = true,
                           .remote = false,
                           .threads = {{.tid = 7, .name = "server", .state = 'S', .in = "poll"}}});
  state.members.push_back(
      {.id = 7, .name = "gpus", .virtual_clock = true, .remote = true, .threads = {}});
  state.waiting.push_back({.pid = 7,
                           .tid = 7,
                           .label = "gpu 0",
                           .target = VirtualTime::from_ns(1'500'000'000),
                           .remote = true});
  CHECK_EQ(
      stall_report(state),
      std::string(
          R"(warpserve: the session has stalled at 0.000000000 s: every thread sleeps and a hold is out.
  process 7 server
    thread 7 server waits in poll, without a deadline
  remote member 7 gpus
    actor 7 gpu 0 waits until 1.500000000 s
)"));
}

}  // namespace
}  // namespace warpserve
