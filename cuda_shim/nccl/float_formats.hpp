// Floating point formats of fewer than 32 bits: conversion from and to float.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace warpserve::gpu::nccl {

// What becomes of a value that is too large for the format.
enum class Overflow { kInfinity, kLargest };

// A sign, an exponent of kExponentBits and a mantissa of kMantissaBits. Codes above kLargest are
// not finite.
template <class Code, int kExponentBits, int kMantissaBits, Code kLargest, Overflow kOverflow>
struct FloatFormat {
  Code code = 0;

  // To the nearest value; of two that are as near, the even one.
  static FloatFormat from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 31) << (kExponentBits + kMantissaBits);
    return {static_cast<Code>(sign | magnitude(bits & 0x7fffffffU))};
  }

  float to_float() const {
    constexpr std::uint32_t kMagnitude = (1U << (kExponentBits + kMantissaBits)) - 1;
    const std::uint32_t absolute = code & kMagnitude;
    const float value = absolute > kLargest ? not_finite(absolute) : finite(absolute);
    return absolute == code ? value : -value;
  }

 private:
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint32_t kMantissa = (1U << kMantissaBits) - 1;
  static constexpr std::uint32_t kInfinity = ((1U << kExponentBits) - 1) << kMantissaBits;
  static constexpr std::uint32_t kNan = kInfinity | kMantissa;

  static std::uint32_t magnitude(std::uint32_t bits) {
    constexpr std::uint32_t kFloatInfinity = 0x7f800000;
    if (bits > kFloatInfinity) return kNan;
    const int float_exponent = static_cast<int>(bits >> 23);
    const std::uint32_t hidden = float_exponent == 0 ? 0 : 0x800000;
    const int exponent = std::max(float_exponent, 1) - 127 + kBias;
    const int subnormal_by = std::max(1 - exponent, 0);
    const int shift = 23 - kMantissaBits + subnormal_by;
    if (shift > 31) return 0;
    // The hidden bit, where there is one, adds one to the exponent.
    const auto base = static_cast<std::uint32_t>(std::max(exponent, 1) - 1) << kMantissaBits;
    const std::uint32_t rounded = base + shift_to_nearest((bits & 0x7fffff) | hidden, shift);
    if (rounded <= kLargest) return rounded;
    return kOverflow == Overflow::kInfinity ? kInfinity : kLargest;
  }

  static std::uint32_t shift_to_nearest(std::uint32_t value, int shift) {
    const std::uint32_t quotient = value >> shift;
    const std::uint32_t rest = value - (quotient << shift);
    const std::uint32_t half = 1U << (shift - 1);
    return quotient + (rest > half || (rest == half && (quotient & 1) != 0) ? 1 : 0);
  }

  static float finite(std::uint32_t absolute) {
    const auto exponent = static_cast<int>(absolute >> kMantissaBits);
    const std::uint32_t hidden = exponent == 0 ? 0 : 1U << kMantissaBits;
    const auto significand = static_cast<float>((absolute & kMantissa) | hidden);
    return std::ldexp(significand, std::max(exponent, 1) - kBias - kMantissaBits);
  }

  static float not_finite(std::uint32_t absolute) {
    return absolute == kInfinity ? std::numeric_limits<float>::infinity()
                                 : std::numeric_limits<float>::quiet_NaN();
  }
};

using Float16 = FloatFormat<std::uint16_t, 5, 10, 0x7bff, Overflow::kInfinity>;
using Bfloat16 = FloatFormat<std::uint16_t, 8, 7, 0x7f7f, Overflow::kInfinity>;
// Without infinities, and with one NaN. Conversions to the 8-bit formats saturate, as those of
// CUDA's C++ types do (cuda_fp8.h, __NV_SATFINITE).
using Float8e4m3 = FloatFormat<std::uint8_t, 4, 3, 0x7e, Overflow::kLargest>;
using Float8e5m2 = FloatFormat<std::uint8_t, 5, 2, 0x7b, Overflow::kLargest>;

}  // namespace warpserve::gpu::nccl
