// Instants in words are exact, however late (timekeeper/server/in_seconds.hpp).
#include "timekeeper/server/in_seconds.hpp"

#include <cstdint>
#include <limits>
#include <string>

#include "tests/native/check.hpp"

namespace warpserve {
namespace {

TEST(nanoseconds_are_nine_digits_of_a_second) {
  CHECK_EQ(in_seconds(0), std::string("0.000000000 s"));
  CHECK_EQ(in_seconds(1), std::string("0.000000001 s"));
  CHECK_EQ(in_seconds(1'500'000'000), std::string("1.500000000 s"));
  CHECK_EQ(in_seconds(-1), std::string("-0.000000001 s"));
  CHECK_EQ(in_seconds(-1'500'000'000), std::string("-1.500000000 s"));
}

TEST(an_instant_that_no_double_holds_is_exact) {
  // A year, in whose nanoseconds the doubles are 4 apart.
  CHECK_EQ(in_seconds(31'536'000'123'456'789), std::string("31536000.123456789 s"));
  CHECK_EQ(in_seconds(std::numeric_limits<std::int64_t>::max()),
           std::string("9223372036.854775807 s"));
  CHECK_EQ(in_seconds(std::numeric_limits<std::int64_t>::min()),
           std::string("-9223372036.854775808 s"));
}

}  // namespace
}  // namespace warpserve
