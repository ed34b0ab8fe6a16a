#include "cuda_shim/nccl/arithmetic.hpp"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "cuda_shim/nccl/float_formats.hpp"

namespace warpserve::gpu::nccl {
namespace {

// Signed overflow is undefined in C++: integers are added and multiplied without their sign.
template <class T>
struct Integer {
  using Element = T;
  using Wide = std::make_unsigned_t<std::common_type_t<T, int>>;

  static T sum(T a, T b) { return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b)); }
  static T prod(T a, T b) { return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b)); }
  static T max(T a, T b) { return a < b ? b : a; }
  static T min(T a, T b) { return b < a ? b : a; }
};

template <class T>
struct Native {
  using Element = T;
  static T sum(T a, T b) { return a + b; }
  static T prod(T a, T b) { return a * b; }
  static T max(T a, T b) { return std::fmax(a, b); }
  static T min(T a, T b) { return std::fmin(a, b); }
  static T of(double value) { return static_cast<T>(value); }
};

template <class Format>
struct Small {
  using Element = Format;
  static Format of(double value) { return rounded(static_cast<float>(value)); }
  static Format sum(Format a, Format b) { return rounded(a.to_float() + b.to_float()); }
  static Format prod(Format a, Format b) { return rounded(a.to_float() * b.to_float()); }
  static Format max(Format a, Format b) {
    return Format::from_float(std::fmax(a.to_float(), b.to_float()));
  }
  static Format min(Format a, Format b) {
    return Format::from_float(std::fmin(a.to_float(), b.to_float()));
  }

 private:
  static Format rounded(float value) {
    if constexpr (sizeof(Format) == 1) value = Float16::from_float(value).to_float();
    return Format::from_float(value);
  }
};

// Calls `body` with the arithmetic of the type.
template <class Body>
void with_arithmetic(DataType type, const Body& body) {
  switch (type) {
    case DataType::kInt8:
      return body(Integer<std::int8_t>());
    case DataType::kUint8:
      return body(Integer<std::uint8_t>());
    case DataType::kInt32:
      return body(Integer<std::int32_t>());
    case DataType::kUint32:
      return body(Integer<std::uint32_t>());
    case DataType::kInt64:
      return body(Integer<std::int64_t>());
    case DataType::kUint64:
      return body(Integer<std::uint64_t>());
    case DataType::kFloat16:
      return body(Small<Float16>());
    case DataType::kFloat32:
      return body(Native<float>());
    case DataType::kFloat64:
      return body(Native<double>());
    case DataType::kBfloat16:
      return body(Small<Bfloat16>());
    case DataType::kFloat8e4m3:
      return body(Small<Float8e4m3>());
    case DataType::kFloat8e5m2:
      return body(Small<Float8e5m2>());
  }
}

// Buffers are aligned for their type, as NCCL asks, or are copied: memcpy serves both.
template <class T>
T load(const void* from, std::uint64_t index) {
  T element;
  std::memcpy(&element, static_cast<const std::byte*>(from) + index * sizeof(T), sizeof(T));
  return element;
}
template <class T>
void store(void* to, std::uint64_t index, T element) {
  std::memcpy(static_cast<std::byte*>(to) + index * sizeof(T), &element, sizeof(T));
}

template <class T, class Step>
void combine_with(void* into, const void* from, std::uint64_t count, const Step& step) {
  for (std::uint64_t i = 0; i < count; ++i) {
    store<T>(into, i, step(load<T>(into, i), load<T>(from, i)));
  }
}

}  // namespace

void combine(Combination combination, DataType type, void* into, const void* from,
             std::uint64_t count) {
  with_arithmetic(type, [&]<class Arithmetic>(Arithmetic) {
    using T = typename Arithmetic::Element;
    switch (combination) {
      case Combination::kSum:
        return combine_with<T>(into, from, count, Arithmetic::sum);
      case Combination::kProd:
        return combine_with<T>(into, from, count, Arithmetic::prod);
      case Combination::kMax:
        return combine_with<T>(into, from, count, Arithmetic::max);
      case Combination::kMin:
        return combine_with<T>(into, from, count, Arithmetic::min);
    }
  });
}

void scale(DataType type, void* values, const Scalar& factor, std::uint64_t count) {
  with_arithmetic(type, [&]<class Arithmetic>(Arithmetic) {
    using T = typename Arithmetic::Element;
    const T by = load<T>(factor.data(), 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      store<T>(values, i, Arithmetic::prod(load<T>(values, i), by));
    }
  });
}

void divide(DataType type, void* values, std::int64_t divisor, std::uint64_t count) {
  with_arithmetic(type, [&]<class Arithmetic>(Arithmetic) {
    using T = typename Arithmetic::Element;
    if constexpr (std::is_integral_v<T>) {
      for (std::uint64_t i = 0; i < count; ++i) {
        store<T>(values, i, static_cast<T>(load<T>(values, i) / static_cast<T>(divisor)));
      }
    }
  });
}

bool is_integer(DataType type) {
  return type <= DataType::kUint64;
}

Scalar reciprocal(DataType type, int n) {
  Scalar scalar{};
  with_arithmetic(type, [&]<class Arithmetic>(Arithmetic) {
    if constexpr (!std::is_integral_v<typename Arithmetic::Element>) {
      store(scalar.data(), 0, Arithmetic::of(1.0 / n));
    }
  });
  return scalar;
}

}  // namespace warpserve::gpu::nccl
