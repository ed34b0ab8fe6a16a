// An object in memory that processes share with those that they fork.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

#include "tests/programs/runner/fail.hpp"

namespace programs {

template <class T>
class Shared {
 public:
  Shared() {
    void* memory =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    expect(memory != MAP_FAILED, "mmap");
    object_ = new (memory) T;
  }
  ~Shared() { munmap(object_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() { return object_; }
  T& operator*() { return *object_; }

 private:
  T* object_;
};

}  // namespace programs
