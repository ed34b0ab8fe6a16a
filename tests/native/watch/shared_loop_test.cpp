// A loop shared by two threads does each turn once, and is over when `run` returns.
#include "timekeeper/server/shared_loop.hpp"

#include <atomic>
#include <vector>

#include "tests/native/check.hpp"

namespace warpserve {
namespace {

TEST(every_turn_is_done_once) {
  SharedLoop loop;
  for (const std::size_t count : {0, 1, 3, 4, 5, 100, 1'001}) {
    std::vector<std::atomic<int>> done(count);
    loop.run(count, [&](std::size_t i) { ++done[i]; });
    for (const auto& times : done) CHECK_EQ(times.load(), 1);
  }
}

TEST(a_late_helper_does_not_touch_the_next_loop) {
  SharedLoop loop;
  std::size_t sum = 0;
  for (std::size_t round = 0; round < 20'000; ++round) {
    std::vector<std::size_t> values(round % 9, 0);
    loop.run(values.size(), [&](std::size_t i) { values[i] = 1; });
    for (const std::size_t value : values) sum += value;
  }
  std::size_t expected = 0;
  for (std::size_t round = 0; round < 20'000; ++round) expected += round % 9;
  CHECK_EQ(sum, expected);
}

}  // namespace
}  // namespace warpserve
