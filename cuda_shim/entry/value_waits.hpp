// Streams that wait for a value in memory (cuStreamWaitValue), and those that write one.
//
// A stream writes at its instant, not when the program asks for it, so that other processes, too,
// see the value no sooner. What the CPU writes nobody is told of: waits look at it now and then.
#pragma once

#include <cstdint>

#include "cuda_shim/entry/memory.hpp"

namespace warpserve::gpu {

// The low bits of CUstreamWaitValue_flags.
enum class Comparison : std::uint32_t { kGreaterOrEqual = 0, kEqual = 1, kAnd = 2, kNor = 3 };

// Word is std::uint32_t or std::uint64_t. Addresses of control or host memory, aligned; else
// Failure(kInvalidValue), for compute memory Failure(kNotSupported).
template <class Word>
Status wait_for_value(Stream& stream, Address address, Word value, std::uint32_t flags);
template <class Word>
Status write_value(Stream& stream, Address address, Word value, std::uint32_t flags);

extern template Status wait_for_value(Stream&, Address, std::uint32_t, std::uint32_t);
extern template Status wait_for_value(Stream&, Address, std::uint64_t, std::uint32_t);
extern template Status write_value(Stream&, Address, std::uint32_t, std::uint32_t);
extern template Status write_value(Stream&, Address, std::uint64_t, std::uint32_t);

}  // namespace warpserve::gpu
