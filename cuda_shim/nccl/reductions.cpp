#include "cuda_shim/nccl/reductions.hpp"

namespace warpserve::gpu::nccl {

std::uint32_t Reductions::add(DataType type, Factor factor) {
  const std::lock_guard lock(mutex_);
  made_[next_] = {type, factor};
  return next_++;
}

void Reductions::remove(std::uint32_t reduction) {
  const std::lock_guard lock(mutex_);
  require(made_.erase(reduction) == 1, Outcome::kInvalidArgument,
          "the communicator has no such reduction");
}

Factor Reductions::factor(std::uint32_t reduction, DataType type) const {
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(reduction);
  require(found != made_.end(), Outcome::kInvalidArgument,
          "the communicator has no such reduction");
  require(found->second.first == type, Outcome::kInvalidArgument,
          "the reduction was made for another type");
  return found->second.second;
}

}  // namespace warpserve::gpu::nccl
