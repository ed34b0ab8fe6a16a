// Small floating point formats, and what reductions do to elements.
#include "cuda_shim/nccl/arithmetic.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda_shim/nccl/float_formats.hpp"
#include "tests/native/check.hpp"

namespace warpserve::gpu::nccl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every code is the nearest to its own value; the midpoint of two neighbours goes to the even one.
template <class Format>
void check_all_codes(std::uint32_t largest) {
  using Code = decltype(Format::code);
  for (std::uint32_t code = 0; code < largest; ++code) {
    const float value = Format{static_cast<Code>(code)}.to_float();
    const float next = Format{static_cast<Code>(code + 1)}.to_float();
    const float middle = value + (next - value) / 2;
    const std::uint32_t even = code + (code & 1);
    if (Format::from_float(value).code != code || Format::from_float(middle).code != even ||
        Format::from_float(std::nextafter(middle, 0.0F)).code != code ||
        Format::from_float(std::nextafter(middle, kInfinity)).code != code + 1 || !(value < next)) {
      CHECK_EQ(code, largest);
      return;
    }
  }
}

template <class T>
std::vector<T> combined(Combination combination, DataType type, std::vector<T> into,
                        const std::vector<T>& from) {
  combine(combination, type, into.data(), from.data(), into.size());
  return into;
}

TEST(conversions_go_to_the_nearest_value) {
  check_all_codes<Float16>(0x7bff);
  check_all_codes<Bfloat16>(0x7f7f);
  check_all_codes<Float8e4m3>(0x7e);
  check_all_codes<Float8e5m2>(0x7b);
}

TEST(known_values_have_their_codes) {
  CHECK_EQ(Float16::from_float(1.0F).code, 0x3c00);
  CHECK_EQ(Float16::from_float(-2.0F).code, 0xc000);
  CHECK_EQ(Bfloat16::from_float(1.0F).code, 0x3f80);
  CHECK_EQ(int{Float8e4m3::from_float(448.0F).code}, 0x7e);
  CHECK_EQ(int{Float8e5m2::from_float(57344.0F).code}, 0x7b);
  CHECK_EQ(Float16{0x0001}.to_float(), std::ldexp(1.0F, -24));
}

TEST(too_large_values_become_infinity_or_the_largest) {
  CHECK_EQ(Float16::from_float(65519.0F).code, 0x7bff);
  CHECK_EQ(Float16::from_float(65520.0F).code, 0x7c00);
  CHECK_EQ(Float16::from_float(-kInfinity).code, 0xfc00);
  CHECK_EQ(int{Float8e4m3::from_float(1e6F).code}, 0x7e);
  CHECK_EQ(int{Float8e5m2::from_float(kInfinity).code}, 0x7b);
  CHECK(std::isnan(Float16::from_float(NAN).to_float()));
  CHECK(std::isnan(Bfloat16::from_float(NAN).to_float()));
  CHECK(std::isnan(Float8e4m3::from_float(NAN).to_float()));
  CHECK(std::isnan(Float8e5m2::from_float(NAN).to_float()));
}

TEST(integers_wrap_around) {
  using Bytes = std::vector<std::uint8_t>;
  CHECK_EQ(int{combined(Combination::kSum, DataType::kUint8, Bytes{200}, Bytes{100})[0]}, 44);
  using Ints = std::vector<std::int32_t>;
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  CHECK_EQ(combined(Combination::kSum, DataType::kInt32, Ints{kMost}, Ints{1})[0],
           std::numeric_limits<std::int32_t>::min());
  CHECK_EQ(combined(Combination::kProd, DataType::kInt32, Ints{kMost}, Ints{2})[0], -2);
  CHECK_EQ(combined(Combination::kMin, DataType::kInt32, Ints{-3}, Ints{2})[0], -3);
  CHECK_EQ(combined(Combination::kMax, DataType::kUint32, Ints{-3}, Ints{2})[0], -3);
}

TEST(each_step_rounds_to_the_type) {
  using Halves = std::vector<std::uint16_t>;
  const auto half = [](float value) { return Float16::from_float(value).code; };
  // 2048 and 1 have no sum of 11 bits.
  CHECK_EQ(combined(Combination::kSum, DataType::kFloat16, Halves{half(2048)}, Halves{half(1)})[0],
           half(2048));
}

TEST(averages_scale_floats_and_divide_integers) {
  std::array<float, 2> floats = {3.0F, -6.0F};
  scale(DataType::kFloat32, floats.data(), reciprocal(DataType::kFloat32, 4), floats.size());
  CHECK_EQ(floats[0], 0.75F);
  CHECK_EQ(floats[1], -1.5F);
  std::array<std::int64_t, 2> integers = {7, -7};
  divide(DataType::kInt64, integers.data(), 2, integers.size());
  CHECK_EQ(integers[0], 3);
  CHECK_EQ(integers[1], -3);
}

}  // namespace
}  // namespace warpserve::gpu::nccl
