// Groups: what a thread calls between ncclGroupStart and ncclGroupEnd is begun together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cuda_shim/nccl/communicator.hpp"
#include "cuda_shim/time/stream.hpp"

namespace warpserve::gpu::nccl {

// The making of a communicator, in steps of which one thread can do each for several ranks before
// the next. They throw NcclFailure.
struct Making {
  std::shared_ptr<Communicator> made;
  std::function<void()> post;  // what others need of this rank
  std::function<void()> join;  // waits for what it needs of others, and joins
};

// An operation for a stream of its communicator's device.
struct Enqueued {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<Stream> stream;
  Call call;
};

// At once, or at the end of the thread's group. Throw NcclFailure, also for what earlier calls of
// the group did.
void make(Making making);
void enqueue(Enqueued operation);

void start_group();
// Throws NcclFailure, and begins nothing, where a call of the group has failed.
void end_group();
// A call has failed: the group that it is in, if any, will.
void fail_group(Outcome result);

}  // namespace warpserve::gpu::nccl
