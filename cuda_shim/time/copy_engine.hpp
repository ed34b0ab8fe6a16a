// The hardware that moves bytes in one direction: one copy at a time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "timekeeper/core/types.hpp"

namespace warpserve::gpu {

// A copy takes the first time after its stream lets it begin for which the engine is free for as
// long as it takes. So one that waits for a long kernel, or for a collective that may never be
// complete, keeps no other copy from the engine meanwhile. What an earlier call has reserved stays
// where it is, for its end may have been told: a later call can't get ahead of it.
class CopyEngine {
 public:
  // When a copy ends that may begin at `ready`. It takes the first gap that is long enough.
  VirtualTime reserve(VirtualTime ready, VirtualDuration duration);

  // What was over by then is of no interest any more.
  void forget_before(VirtualTime now);

 private:
  std::mutex mutex_;
  std::map<VirtualTime, VirtualTime> busy_;  // from, until; disjoint and not adjacent
};

// How long `bytes` take at that rate, in whole ns, rounded up.
VirtualDuration transfer_time(std::uint64_t bytes, std::uint64_t bytes_per_s);

}  // namespace warpserve::gpu
