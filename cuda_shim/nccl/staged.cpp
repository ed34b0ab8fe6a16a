#include "cuda_shim/nccl/staged.hpp"

#include <utility>

#include "cuda_shim/nccl/endpoint.hpp"

namespace warpserve::gpu::nccl {

Staged::Staged(std::uint64_t bytes)
    : offset_(bytes == 0 ? 0 : Endpoint::get().staging().take(bytes)), bytes_(bytes) {}

Staged::~Staged() {
  if (bytes_ != 0) Endpoint::get().staging().give(offset_, bytes_);
}

Staged::Staged(Staged&& other) noexcept
    : offset_(other.offset_), bytes_(std::exchange(other.bytes_, 0)) {}

Staged& Staged::operator=(Staged&& other) noexcept {
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::byte* Staged::data() const {
  return Endpoint::get().staging().at(offset_);
}

}  // namespace warpserve::gpu::nccl
