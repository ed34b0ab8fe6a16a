#include "timekeeper/server/host_wait.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <limits>

#include "tests/native/check.hpp"

using warpserve::BlockedCall;
using warpserve::ends_on_host_time;
using warpserve::parse_blocked_call;
using warpserve::parse_task_stat;
using warpserve::waits_for_vfork_child;

namespace {

constexpr std::uint64_t kForEverMs = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kPointer = 0x7ffc00001000;
constexpr std::uint64_t kStack = 0x7ffc00000000;
constexpr std::uint64_t kStack32 = 0xffc00000;

bool ends(long number, std::array<std::uint64_t, 6> arguments, std::uint64_t stack = kStack) {
  return ends_on_host_time(
      BlockedCall{.number = number, .arguments = arguments, .stack_pointer = stack}, "do_wait");
}

}  // namespace

TEST(a_sleep_ends_on_host_time) {
  CHECK(ends(SYS_nanosleep, {kPointer}));
  CHECK(ends(SYS_clock_nanosleep, {0, 0, kPointer}));
  CHECK(ends_on_host_time(BlockedCall{}, "hrtimer_nanosleep"));
}

TEST(a_timeout_in_milliseconds) {
  CHECK(ends(SYS_poll, {kPointer, 1, 100}));
  CHECK(!ends(SYS_poll, {kPointer, 1, kForEverMs}));
  // The kernel shows whole registers; the upper half of an int means nothing.
  CHECK(!ends(SYS_poll, {kPointer, 1, 0xffffffff}));
  CHECK(ends(SYS_epoll_wait, {3, kPointer, 1, 100}));
  CHECK(!ends(SYS_epoll_pwait, {3, kPointer, 1, kForEverMs}));
}

TEST(a_pointer_to_a_timeout) {
  CHECK(ends(SYS_ppoll, {kPointer, 1, kPointer}));
  CHECK(!ends(SYS_ppoll, {kPointer, 1, 0}));
  CHECK(ends(SYS_select, {1, kPointer, 0, 0, kPointer}));
  CHECK(!ends(SYS_pselect6, {1, kPointer, 0, 0, 0}));
  CHECK(ends(SYS_rt_sigtimedwait, {kPointer, 0, kPointer}));
  CHECK(!ends(SYS_rt_sigtimedwait, {kPointer, 0, 0}));
}

TEST(a_futex_with_and_without_timeout) {
  CHECK(ends(SYS_futex, {kPointer, FUTEX_WAIT_PRIVATE, 0, kPointer}));
  CHECK(ends(SYS_futex, {kPointer, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, kPointer}));
  CHECK(!ends(SYS_futex, {kPointer, FUTEX_WAIT_PRIVATE, 0, 0}));
}

TEST(waits_for_others_do_not_end_on_host_time) {
  CHECK(!ends(SYS_read, {0, kPointer, 1, 100, 100}));
  CHECK(!ends(SYS_wait4, {1, 0, 0, 0}));
  CHECK(!ends_on_host_time(BlockedCall{}, "do_wait"));
}

TEST(what_cannot_be_told_ends_on_host_time) {
  CHECK(ends(SYS_restart_syscall, {}));
  CHECK(ends(162, {}, kStack32));  // nanosleep in the i386 table
  CHECK(!ends(7, {}, kStack32));   // waitpid
}

TEST(a_vfork_parent_is_known_by_call_and_function) {
  const BlockedCall vfork{.number = SYS_vfork, .arguments = {}, .stack_pointer = kStack};
  const BlockedCall read{.number = SYS_read, .arguments = {}, .stack_pointer = kStack};
  CHECK(waits_for_vfork_child(vfork, "kernel_clone"));
  CHECK(!waits_for_vfork_child(vfork, "rwsem_down_read_slowpath"));
  CHECK(!waits_for_vfork_child(read, "kernel_clone"));
}

TEST(stat_of_a_program_with_an_awkward_name) {
  const auto stat = parse_task_stat(
      "7 (a) R 1 (b) S 3 4 5 0 -1 64 0 0 0 0 0 6 0 0 20 0 1 0 24 0 0 18446744073709551615 11 12 "
      "13");
  REQUIRE(stat.has_value());
  CHECK_EQ(stat->comm, "a) R 1 (b");
  CHECK_EQ(stat->state, 'S');
  CHECK_EQ(stat->parent, 3);
  CHECK_EQ(stat->flags, 64U);
  CHECK_EQ(stat->start_time_ticks, 24U);
  CHECK_EQ(stat->image.start_code, 11U);
  CHECK_EQ(stat->image.start_stack, 13U);
}

TEST(broken_stat_and_syscall_are_refused) {
  CHECK(!parse_task_stat("").has_value());
  CHECK(!parse_task_stat("7 (a").has_value());
  CHECK(!parse_task_stat("7 (a) S 3 4").has_value());
  CHECK(!parse_blocked_call("running\n").has_value());
  CHECK(!parse_blocked_call("").has_value());
  const auto outside = parse_blocked_call("-1 0x7ffc00000000 0x401000\n");
  REQUIRE(outside.has_value());
  CHECK_EQ(outside->number, -1);
}
