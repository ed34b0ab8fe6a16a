// Bytes of a process that other processes of the session read: what its ranks contribute to
// operations.
//
// A memory file, mapped whole by its owner and its readers, of which only what is in use has pages.
// Readers open it through /proc/PID/fd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "cuda_shim/memory/file_descriptor.hpp"
#include "cuda_shim/memory/range_allocator.hpp"

namespace warpserve::gpu::nccl {

inline constexpr std::uint64_t kStagingBytes = std::uint64_t{64} << 30;

// A mapping that ends with its owner.
class Mapping {
 public:
  Mapping() = default;
  // Throws NcclFailure(kSystemError). Read-only unless `writable`.
  Mapping(int fd, std::uint64_t bytes, bool writable);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// A memory file of so many zeros. Throws NcclFailure(kSystemError).
FileDescriptor make_memory_file(const char* name, std::uint64_t bytes);

// Any thread may call anything.
class Staging {
 public:
  Staging();

  int fd() const { return file_.get(); }
  // An offset. Throws NcclFailure(kSystemError) where there is no room.
  std::uint64_t take(std::uint64_t bytes);
  void give(std::uint64_t offset, std::uint64_t bytes);
  std::byte* at(std::uint64_t offset) const { return mapping_.data() + offset; }

 private:
  const FileDescriptor file_;
  const Mapping mapping_;
  std::mutex mutex_;
  RangeAllocator ranges_;
};

}  // namespace warpserve::gpu::nccl
