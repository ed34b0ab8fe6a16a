#include "cuda_shim/nccl/types.hpp"

namespace warpserve::gpu::nccl {
namespace {

constexpr const char* kTypeNames[kDataTypes] = {"int8",    "uint8",    "int32",      "uint32",
                                                "int64",   "uint64",   "float16",    "float32",
                                                "float64", "bfloat16", "float8e4m3", "float8e5m2"};
constexpr const char* kReductionNames[kReductions] = {"sum", "prod", "max", "min", "avg"};

bool has_root(Operation operation) {
  return operation == Operation::kReduce || operation == Operation::kBroadcast ||
         operation == Operation::kGather || operation == Operation::kScatter;
}

}  // namespace

std::string describe(const Signature& signature) {
  const Operation operation = signature.operation;
  std::string text = std::string(name_of(operation)) + " of " + std::to_string(signature.count) +
                     " " + kTypeNames[static_cast<std::uint32_t>(signature.type)];
  if (reduces(operation)) {
    text += std::string(", ") + (signature.reduction < kReductions
                                     ? kReductionNames[signature.reduction]
                                     : "sum of scaled values");
  }
  if (has_root(operation)) text += ", root " + std::to_string(signature.root);
  return text;
}

}  // namespace warpserve::gpu::nccl
