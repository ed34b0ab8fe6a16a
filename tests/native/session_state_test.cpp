// What the stall report says of whom (T8).
#include "timekeeper/server/session_state.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "tests/native/check.hpp"
#include "timekeeper/server/roll_calls.hpp"

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

// Of three ranks, two have come to their second step, and one waits for a message besides.
TEST(a_roll_call_names_those_who_are_behind) {
  RollCall call;
  call.size.store(3);
  const std::uint32_t steps[] = {2, 1, 2};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    call.places[rank].pid.store(static_cast<std::uint32_t>(10 + rank));
    call.places[rank].steps.store(steps[rank]);
    call.places[rank].peer.store(rank == 1 ? 0 : kNobody);
    std::strncpy(call.places[rank].step, rank == 1 ? "Recv" : "AllReduce",
                 sizeof(call.places[rank].step));
  }
  const std::vector<std::string> lines = describe(call);
  REQUIRE(lines.size() == 2);
  CHECK_EQ(lines[0], "rank 1 (process 11) waits in Recv for rank 0 (process 10)");
  CHECK_EQ(lines[1], "AllReduce of 3 ranks lacks rank 1 (process 11)");
  call.places[1].steps.store(2);
  call.places[1].peer.store(kNobody);
  CHECK(describe(call).empty());
}

}  // namespace
}  // namespace warpserve
