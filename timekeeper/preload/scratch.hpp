// An array whose size is known at run time, on the stack where it is small and in pages of its own
// where it is not: poll may be called in a signal handler, where the heap may not be used.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "timekeeper/preload/raw_syscall.hpp"

namespace warpserve {

template <class T, std::size_t kInline>
class Scratch {
 public:
  explicit Scratch(std::size_t count) : bytes_(count > kInline ? count * sizeof(T) : 0) {
    if (bytes_ == 0) return;
    const long pages = raw_syscall(SYS_mmap, nullptr, bytes_, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = is_syscall_error(pages) ? nullptr : reinterpret_cast<T*>(pages);
  }
  ~Scratch() {
    if (bytes_ != 0 && data_ != nullptr) raw_syscall(SYS_munmap, data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Null: no memory.
  T* data() { return data_; }

 private:
  const std::size_t bytes_;
  T inline_[kInline];
  T* data_ = inline_;
};

}  // namespace warpserve
