#include "cuda_shim/time/copy_engine.hpp"

#include <limits>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

TEST(copies_that_are_ready_together_follow_each_other) {
  CopyEngine engine;
  CHECK_EQ(engine.reserve(at(0), ns(10)), at(10));
  CHECK_EQ(engine.reserve(at(0), ns(10)), at(20));
  CHECK_EQ(engine.reserve(at(5), ns(1)), at(21));
  CHECK_EQ(engine.reserve(at(100), ns(1)), at(101));
}

TEST(a_copy_takes_the_first_gap_that_is_long_enough) {
  CopyEngine engine;
  engine.reserve(at(100), ns(10));
  engine.reserve(at(130), ns(10));
  CHECK_EQ(engine.reserve(at(90), ns(10)), at(100));
  CHECK_EQ(engine.reserve(at(90), ns(15)), at(125));
  CHECK_EQ(engine.reserve(at(90), ns(10)), at(150));
  CHECK_EQ(engine.reserve(at(90), ns(5)), at(130));
  CHECK_EQ(engine.reserve(at(0), ns(90)), at(90));
  CHECK_EQ(engine.reserve(at(0), ns(1)), at(151));
}

TEST(a_copy_without_duration_takes_nothing) {
  CopyEngine engine;
  engine.reserve(at(10), ns(10));
  CHECK_EQ(engine.reserve(at(15), ns(0)), at(20));
  CHECK_EQ(engine.reserve(at(5), ns(0)), at(5));
  CHECK_EQ(engine.reserve(at(0), ns(10)), at(10));
}

TEST(what_is_over_is_forgotten_and_the_rest_is_kept) {
  CopyEngine engine;
  engine.reserve(at(0), ns(10));
  engine.reserve(at(20), ns(10));
  engine.forget_before(at(10));
  CHECK_EQ(engine.reserve(at(0), ns(10)), at(10));
  CHECK_EQ(engine.reserve(at(20), ns(1)), at(31));
}

TEST(a_transfer_takes_whole_ns_rounded_up) {
  CHECK_EQ(transfer_time(0, 7), ns(0));
  CHECK_EQ(transfer_time(1, 1'000'000'000), ns(1));
  CHECK_EQ(transfer_time(1, 3'000'000'000), ns(1));
  CHECK_EQ(transfer_time(4, 3'000'000'000), ns(2));
  CHECK_EQ(transfer_time(80'000'000'000, 55'000'000'000), ns(1'454'545'455));
  CHECK_EQ(transfer_time(std::numeric_limits<std::uint64_t>::max(), 1),
           ns(std::numeric_limits<std::int64_t>::max()));
}
