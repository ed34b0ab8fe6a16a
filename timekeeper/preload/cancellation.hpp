// Makes a raw system call in its scope a cancellation point, as the libc function that it stands in
// for is one. What the thread holds of ours is given back when it exits.
#pragma once

#include <pthread.h>

namespace warpserve {

class CancellationPoint {
 public:
  CancellationPoint() { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old_type_); }
  ~CancellationPoint() { pthread_setcanceltype(old_type_, nullptr); }
  CancellationPoint(const CancellationPoint&) = delete;
  CancellationPoint& operator=(const CancellationPoint&) = delete;

 private:
  int old_type_ = PTHREAD_CANCEL_DEFERRED;
};

}  // namespace warpserve
