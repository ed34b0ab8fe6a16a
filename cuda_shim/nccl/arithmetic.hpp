// What a reduction does to elements, as NCCL's kernels do it: each step rounds to the type;
// integers wrap around; 8-bit floats are added and multiplied in 16 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda_shim/nccl/types.hpp"

namespace warpserve::gpu::nccl {

// One element of any type.
using Scalar = std::array<std::byte, 8>;

enum class Combination { kSum, kProd, kMax, kMin };

// into[i] = into[i] combined with from[i]
void combine(Combination combination, DataType type, void* into, const void* from,
             std::uint64_t count);

// values[i] *= factor
void scale(DataType type, void* values, const Scalar& factor, std::uint64_t count);

// values[i] /= divisor, towards zero; of integers.
void divide(DataType type, void* values, std::int64_t divisor, std::uint64_t count);

bool is_integer(DataType type);
// 1/n in a floating type: what an average multiplies by before it adds.
Scalar reciprocal(DataType type, int n);

}  // namespace warpserve::gpu::nccl
