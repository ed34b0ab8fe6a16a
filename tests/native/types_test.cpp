// The types of time: nothing mixes, nothing wraps (timekeeper/core/types.hpp).
#include "timekeeper/core/types.hpp"

#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/native/check.hpp"

namespace warpserve {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Comparable = requires(A a, B b) { a < b; };

static_assert(Addable<VirtualTime, VirtualDuration>);
static_assert(!Addable<VirtualTime, HostDuration>);
static_assert(!Addable<VirtualTime, VirtualTime>);
static_assert(!Addable<VirtualDuration, HostDuration>);
static_assert(!Comparable<VirtualTime, HostTime>);
static_assert(!Comparable<VirtualTime, VirtualDuration>);
static_assert(!std::is_convertible_v<std::int64_t, VirtualTime>);
static_assert(!std::is_convertible_v<VirtualTime, HostTime>);

TEST(seconds_become_the_nearest_nanosecond) {
  CHECK_EQ(VirtualDuration::from_seconds(0.0), VirtualDuration());
  CHECK_EQ(VirtualDuration::from_seconds(-0.0), VirtualDuration());
  CHECK_EQ(VirtualDuration::from_seconds(1.5e-9), VirtualDuration::from_ns(2));
  CHECK_EQ(VirtualDuration::from_seconds(0.001), VirtualDuration::from_ms(1));
  CHECK_EQ(VirtualDuration::from_seconds(30.0 * 86400), VirtualDuration::from_ms(2'592'000'000));
}

TEST(seconds_that_are_no_duration_are_refused) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {-1.0, -1e-9, infinity, -infinity, std::nan(""), 9.3e9, 1e300}) {
    CHECK(!VirtualDuration::from_seconds(seconds));
  }
  CHECK(VirtualDuration::from_seconds(9.2e9).has_value());
}

TEST(a_sum_that_does_not_fit_is_never) {
  const auto late = VirtualTime::from_ns(std::numeric_limits<std::int64_t>::max() - 1);
  CHECK_EQ(late.saturating_add(VirtualDuration::from_ns(1)), VirtualTime::max());
  CHECK_EQ(late.saturating_add(VirtualDuration::from_ns(2)), VirtualTime::max());
  CHECK_EQ(VirtualTime::max().saturating_add(VirtualDuration::from_ms(1)), VirtualTime::max());
  CHECK_EQ(VirtualTime().saturating_add(VirtualDuration::from_us(3)), VirtualTime::from_ns(3'000));
}

TEST(instants_and_durations_fit_together) {
  const auto start = VirtualTime::from_ns(200);
  const auto end = VirtualTime::from_ns(500);
  CHECK_EQ(end - start, VirtualDuration::from_ns(300));
  CHECK_EQ(start + (end - start), end);
  CHECK_EQ(end - (end - start), start);
}

}  // namespace
}  // namespace warpserve
