#include "timekeeper/preload/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "timekeeper/preload/raw_syscall.hpp"

namespace warpserve {

namespace {

// Beyond this number a descriptor is not protected. Ours are there only in a process that has used
// up all the others.
constexpr int kMaxProtected = 65'536;
constexpr int kBits = 64;
// High, but not so high that the kernel needs a large table for one descriptor.
constexpr rlim_t kHighestFirst = 4'096;

constinit std::atomic<std::uint64_t> ours[kMaxProtected / kBits]{};

std::atomic<std::uint64_t>& word_of(int fd) {
  return ours[fd / kBits];
}
std::uint64_t bit_of(int fd) {
  return std::uint64_t{1} << (fd % kBits);
}

int first_number() {
  rlimit limit{};
  raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
  return static_cast<int>(std::min(limit.rlim_cur / 2, kHighestFirst));
}

}  // namespace

int keep_descriptor(int fd) {
  long kept = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, first_number());
  if (kept == -EMFILE || kept == -EINVAL) kept = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
  raw_syscall(SYS_close, fd);
  if (kept >= 0 && kept < kMaxProtected) {
    word_of(static_cast<int>(kept)).fetch_or(bit_of(static_cast<int>(kept)));
  }
  return static_cast<int>(kept);
}

void drop_descriptor(int fd) {
  if (fd < 0) return;
  if (fd < kMaxProtected) word_of(fd).fetch_and(~bit_of(fd));
  raw_syscall(SYS_close, fd);
}

bool is_our_descriptor(int fd) {
  return fd >= 0 && fd < kMaxProtected && (word_of(fd).load() & bit_of(fd)) != 0;
}

int next_our_descriptor(int fd) {
  fd = std::max(fd, 0);
  while (fd < kMaxProtected) {
    const std::uint64_t rest = word_of(fd).load() >> (fd % kBits);
    if (rest != 0) return fd + __builtin_ctzll(rest);
    fd += kBits - fd % kBits;
  }
  return -1;
}

}  // namespace warpserve
