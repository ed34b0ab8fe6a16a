// Bytes in this process' staging.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpserve::gpu::nccl {

class Staged {
 public:
  Staged() = default;
  explicit Staged(std::uint64_t bytes);
  ~Staged();
  Staged(Staged&& other) noexcept;
  Staged& operator=(Staged&& other) noexcept;
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  std::uint64_t offset() const { return offset_; }
  std::byte* data() const;

 private:
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace warpserve::gpu::nccl
