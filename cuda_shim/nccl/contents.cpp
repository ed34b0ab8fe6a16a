#include "cuda_shim/nccl/contents.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda_shim/memory/memory.hpp"

namespace warpserve::gpu::nccl {
namespace {

enum class Holds { kNothing, kOne, kAll };  // of the call's count, or that times the ranks

std::uint64_t bytes_of(Holds holds, const Signature& signature, int ranks) {
  if (holds == Holds::kNothing) return 0;
  return signature.bytes() * (holds == Holds::kAll ? static_cast<std::uint64_t>(ranks) : 1);
}

Holds sent_by(const Signature& signature, bool is_root) {
  switch (signature.operation) {
    case Operation::kAllReduce:
    case Operation::kReduce:
    case Operation::kAllGather:
    case Operation::kGather:
    case Operation::kSend:
      return Holds::kOne;
    case Operation::kBroadcast:
      return is_root ? Holds::kOne : Holds::kNothing;
    case Operation::kScatter:
      return is_root ? Holds::kAll : Holds::kNothing;
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return Holds::kAll;
    case Operation::kRecv:
      return Holds::kNothing;
  }
  return Holds::kNothing;
}

Holds received_by(const Signature& signature, bool is_root) {
  switch (signature.operation) {
    case Operation::kAllReduce:
    case Operation::kBroadcast:
    case Operation::kReduceScatter:
    case Operation::kScatter:
    case Operation::kRecv:
      return Holds::kOne;
    case Operation::kReduce:
      return is_root ? Holds::kOne : Holds::kNothing;
    case Operation::kGather:
      return is_root ? Holds::kAll : Holds::kNothing;
    case Operation::kAllGather:
    case Operation::kAllToAll:
      return Holds::kAll;
    case Operation::kSend:
      return Holds::kNothing;
  }
  return Holds::kNothing;
}

Combination combination_of(std::uint32_t reduction) {
  switch (static_cast<Reduction>(reduction)) {
    case Reduction::kProd:
      return Combination::kProd;
    case Reduction::kMax:
      return Combination::kMax;
    case Reduction::kMin:
      return Combination::kMin;
    default:
      return Combination::kSum;
  }
}

bool is_average(const Signature& signature) {
  return reduces(signature.operation) &&
         signature.reduction == static_cast<std::uint32_t>(Reduction::kAvg);
}

// Averages of floating types scale before they add, and those of integers divide afterwards.
std::optional<Scalar> scaling(const Call& call, int ranks) {
  const DataType type = call.signature.type;
  if (is_average(call.signature) && !is_integer(type)) return reciprocal(type, ranks);
  if (!call.factor) return std::nullopt;
  Scalar value = call.factor->value;
  if (call.factor->address != 0) read(call.factor->address, size_of(type), value.data());
  return value;
}

// `offset` elements into all contributions. Nothing where one has no contents.
std::optional<std::vector<std::byte>> reduced(const Signature& signature, std::uint64_t offset,
                                              std::span<const std::byte* const> contributions) {
  if (std::ranges::find(contributions, nullptr) != contributions.end()) return std::nullopt;
  const std::uint64_t skipped = offset * size_of(signature.type);
  const std::byte* const first = contributions.front() + skipped;
  std::vector<std::byte> result(first, first + signature.bytes());
  for (const std::byte* other : contributions.subspan(1)) {
    combine(combination_of(signature.reduction), signature.type, result.data(), other + skipped,
            signature.count);
  }
  if (is_average(signature) && is_integer(signature.type)) {
    divide(signature.type, result.data(), static_cast<std::int64_t>(contributions.size()),
           signature.count);
  }
  return result;
}

}  // namespace

std::uint64_t contributed_bytes(const Signature& signature, int rank, int ranks) {
  return bytes_of(sent_by(signature, rank == signature.root), signature, ranks);
}

std::uint64_t received_bytes(const Signature& signature, int rank, int ranks) {
  return bytes_of(received_by(signature, rank == signature.root), signature, ranks);
}

bool contribute(const Call& call, int rank, int ranks, std::byte* to) {
  const std::uint64_t bytes = contributed_bytes(call.signature, rank, ranks);
  if (bytes == 0 || !read(call.send, bytes, to)) return false;
  if (const auto by = scaling(call, ranks)) {
    scale(call.signature.type, to, *by, bytes / size_of(call.signature.type));
  }
  return true;
}

void receive(const Call& call, int rank, std::span<const std::byte* const> contributions) {
  const Signature& signature = call.signature;
  const std::uint64_t block = signature.bytes();
  const auto own = static_cast<std::uint64_t>(rank);
  const bool is_root = rank == signature.root;
  const auto put = [&](std::uint64_t index, const std::byte* from) {
    if (from != nullptr) write(call.recv + index * block, from, block);
  };
  const std::byte* const of_root = contributions[static_cast<std::size_t>(signature.root)];
  switch (signature.operation) {
    case Operation::kAllReduce:
    case Operation::kReduce:
      if (signature.operation == Operation::kReduce && !is_root) return;
      if (const auto result = reduced(signature, 0, contributions)) put(0, result->data());
      return;
    case Operation::kReduceScatter:
      if (const auto result = reduced(signature, own * signature.count, contributions)) {
        put(0, result->data());
      }
      return;
    case Operation::kBroadcast:
      return put(0, of_root);
    case Operation::kScatter:
      return put(0, of_root == nullptr ? nullptr : of_root + own * block);
    case Operation::kGather:
      if (!is_root) return;
      [[fallthrough]];
    case Operation::kAllGather:
      for (std::size_t i = 0; i < contributions.size(); ++i) put(i, contributions[i]);
      return;
    case Operation::kAllToAll:
      for (std::size_t i = 0; i < contributions.size(); ++i) {
        put(i, contributions[i] == nullptr ? nullptr : contributions[i] + own * block);
      }
      return;
    case Operation::kSend:
    case Operation::kRecv:
      return;
  }
}

bool read(Address from, std::uint64_t bytes, std::byte* to) {
  Memory& memory = process_memory();
  const auto contents = memory.contents(from, bytes);
  if (!contents.ok() || contents.value() == Contents::kNone) return false;
  const auto plan = memory.copies().plan(address_of(to), from, bytes, CopyKind::kInfer);
  if (!plan.ok()) return false;
  plan.value().move();
  return true;
}

void write(Address to, const std::byte* from, std::uint64_t bytes) {
  const auto plan = process_memory().copies().plan(to, address_of(from), bytes, CopyKind::kInfer);
  if (plan.ok()) plan.value().move();
}

}  // namespace warpserve::gpu::nccl
