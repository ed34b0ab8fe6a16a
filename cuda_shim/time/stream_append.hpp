// How work is put at the end of a stream; for the parts that schedule work.
#pragma once

#include "cuda_shim/time/context.hpp"
#include "cuda_shim/time/stream.hpp"

namespace warpserve::gpu {

template <class Schedule>
Status Stream::append(const Schedule& schedule) {
  if (HostFunctions::running_in_this_thread()) return Status::kNotPermitted;
  if (const Status status = check_not_implicit(); status != Status::kOk) return status;
  Afterwards afterwards;
  {
    const std::lock_guard lock(context_.mutex_);
    const VirtualTime now = context_.clock().now();
    tail_ = schedule(context_.ready(*this).not_before(now), now, afterwards);
  }
  afterwards.run();
  return Status::kOk;
}

}  // namespace warpserve::gpu
