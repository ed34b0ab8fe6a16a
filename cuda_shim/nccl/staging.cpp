#include "cuda_shim/nccl/staging.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "cuda_shim/memory/device_space.hpp"
#include "cuda_shim/nccl/types.hpp"

namespace warpserve::gpu::nccl {
namespace {

constexpr std::uint64_t kAlignmentBytes = 4096;
// What is larger gives its pages back to the host when it is not used any more.
constexpr std::uint64_t kKeptBytes = 1 << 20;

[[noreturn]] void fail(const char* what) {
  throw NcclFailure(Outcome::kSystemError, std::string(what) + ": " + std::strerror(errno));
}

// 0 is no address of a RangeAllocator's.
Address address_of_offset(std::uint64_t offset) {
  return offset + kAlignmentBytes;
}
std::uint64_t whole(std::uint64_t bytes) {
  return round_up(bytes, kAlignmentBytes);
}

}  // namespace

Mapping::Mapping(int fd, std::uint64_t bytes, bool writable) : bytes_(bytes) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const at = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) fail("memory that ranks share can't be mapped");
  data_ = static_cast<std::byte*>(at);
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileDescriptor make_memory_file(const char* name, std::uint64_t bytes) {
  FileDescriptor file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    fail("memory that ranks share can't be made");
  }
  return file;
}

Staging::Staging()
    : file_(make_memory_file("warpserve-nccl-staging", kStagingBytes)),
      mapping_(file_.get(), kStagingBytes, true),
      ranges_(address_of_offset(0), kStagingBytes) {}

std::uint64_t Staging::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto address = ranges_.take(whole(bytes), kAlignmentBytes);
  if (!address) {
    throw NcclFailure(Outcome::kSystemError, "operations on control memory move more than " +
                                                 std::to_string(kStagingBytes >> 30) +
                                                 " GiB at once");
  }
  return *address - address_of_offset(0);
}

void Staging::give(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > kKeptBytes) punch_hole({file_.get(), offset}, whole(bytes));
  const std::lock_guard lock(mutex_);
  ranges_.give(address_of_offset(offset), whole(bytes));
}

}  // namespace warpserve::gpu::nccl
