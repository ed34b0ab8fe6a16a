#include <cstring>

#include "cuda_shim/nccl/call.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nccl;

namespace {

constexpr std::uint32_t kScalarOnDevice = 0;
constexpr std::uint32_t kScalarOnHost = 1;

}  // namespace

std::uint32_t ncclRedOpCreatePreMulSum(std::uint32_t* op, void* scalar, std::uint32_t type,
                                       std::uint32_t residence, void* comm) {
  return nccl_call([&] {
    const auto communicator = communicator_of(comm);
    const DataType of = data_type_of(type);
    not_null(op, "op");
    not_null(static_cast<std::byte*>(scalar), "scalar");
    require(residence == kScalarOnDevice || residence == kScalarOnHost, Outcome::kInvalidArgument,
            "no such ncclScalarResidence_t");
    Factor factor;
    if (residence == kScalarOnHost) {
      std::memcpy(factor.value.data(), scalar, size_of(of));
    } else {
      factor.address = address_of(scalar);
    }
    *op = communicator->reductions().add(of, factor);
  });
}

std::uint32_t ncclRedOpDestroy(std::uint32_t op, void* comm) {
  return nccl_call([&] {
    const auto communicator = communicator_of(comm);
    require(op >= kReductions, Outcome::kInvalidArgument,
            "the operations that NCCL has can't be destroyed");
    communicator->reductions().remove(op);
  });
}
