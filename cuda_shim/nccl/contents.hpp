// What operations do to memory: what a rank contributes, and what it makes of all contributions.
//
// Only control and host memory has contents. What would be made of compute memory is not written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/nccl/arithmetic.hpp"
#include "cuda_shim/nccl/types.hpp"

namespace warpserve::gpu::nccl {

// By what a reduction multiplies before it adds: a number, or where it lies on the device.
struct Factor {
  Scalar value{};
  Address address = 0;  // 0: `value` is it
};

// One rank's call of an operation.
struct Call {
  Signature signature;
  std::int32_t peer = 0;  // of messages
  Address send = 0;
  Address recv = 0;
  std::optional<Factor> factor;  // of reductions that the program made
};

// A rank's bytes in `send` that the operation reads, and in `recv` that it writes; 0 where it does
// not.
std::uint64_t contributed_bytes(const Signature& signature, int rank, int ranks);
std::uint64_t received_bytes(const Signature& signature, int rank, int ranks);

// Copies what `rank` contributes to `to`. False where it has no contents.
bool contribute(const Call& call, int rank, int ranks, std::byte* to);

// Writes what `rank` receives; contributions are by rank, null where there are no contents.
void receive(const Call& call, int rank, std::span<const std::byte* const> contributions);

// Copies between the memory of the GPUs, where that has contents, and the host's.
bool read(Address from, std::uint64_t bytes, std::byte* to);
void write(Address to, const std::byte* from, std::uint64_t bytes);

}  // namespace warpserve::gpu::nccl
