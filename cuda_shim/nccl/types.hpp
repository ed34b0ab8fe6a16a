// The words of NCCL, with the numbers that nccl.h gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace warpserve::gpu::nccl {

// ncclResult_t.
enum class [[nodiscard]] Outcome : std::uint32_t {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// What a call can't go on from. The message says what to do.
class NcclFailure : public std::runtime_error {
 public:
  NcclFailure(Outcome result, const std::string& message)
      : std::runtime_error(message), result_(result) {}
  Outcome result() const { return result_; }

 private:
  Outcome result_;
};

inline void require(bool condition, Outcome result, const char* message) {
  if (!condition) throw NcclFailure(result, message);
}

// ncclDataType_t.
enum class DataType : std::uint32_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr std::uint32_t kDataTypes = 12;

constexpr std::uint64_t size_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

// ncclRedOp_t; what a program creates is counted from kReductions on.
enum class Reduction : std::uint32_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };
inline constexpr std::uint32_t kReductions = 5;

enum class Operation : std::uint32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};

constexpr const char* name_of(Operation operation) {
  constexpr const char* kNames[] = {"AllReduce",     "Reduce",   "Broadcast", "AllGather",
                                    "ReduceScatter", "AlltoAll", "Gather",    "Scatter",
                                    "Send",          "Recv"};
  return kNames[static_cast<std::uint32_t>(operation)];
}

constexpr bool is_point_to_point(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv;
}

constexpr bool reduces(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduce ||
         operation == Operation::kReduceScatter;
}

// Of a rank in a list of all.
constexpr std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

// What all ranks of an operation have to say alike.
struct Signature {
  Operation operation = Operation::kAllReduce;
  DataType type = DataType::kInt8;
  std::uint32_t reduction = 0;  // ncclRedOp_t; 0 where nothing is reduced
  std::int32_t root = 0;        // 0 where there is none
  std::uint64_t count = 0;      // of elements, as the call has it

  std::uint64_t bytes() const { return count * size_of(type); }
  bool operator==(const Signature&) const = default;
};

// "AllReduce of 4 float32, sum"
std::string describe(const Signature& signature);

}  // namespace warpserve::gpu::nccl
