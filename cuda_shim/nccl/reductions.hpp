// The reductions that a program has made for a communicator: sums of what each rank multiplies
// first.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "cuda_shim/nccl/contents.hpp"
#include "cuda_shim/nccl/types.hpp"

namespace warpserve::gpu::nccl {

// Any thread may call anything. Throws NcclFailure(kInvalidArgument) where there is no such one.
class Reductions {
 public:
  // Its ncclRedOp_t.
  std::uint32_t add(DataType type, Factor factor);
  void remove(std::uint32_t reduction);
  Factor factor(std::uint32_t reduction, DataType type) const;

 private:
  mutable std::mutex mutex_;
  std::uint32_t next_ = kReductions;
  std::map<std::uint32_t, std::pair<DataType, Factor>> made_;
};

}  // namespace warpserve::gpu::nccl
