// The hardware that moves bytes in one direction: one copy at a time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "cuda_shim/time/completion.hpp"

namespace warpserve::gpu {

// A copy begins when its stream lets it and the engine is free for as long as it takes. The engine
// serves copies in the order in which they can begin, so one that waits for a long kernel, or for a
// collective that may never be complete, keeps no other copy from the engine meanwhile.
class CopyEngine {
 public:
  // Until when the copy takes that may begin at `ready`.
  Completion copy(const Completion& ready, VirtualDuration duration, VirtualTime now);

 private:
  VirtualTime reserve(VirtualTime ready, VirtualDuration duration);
  void forget_before(VirtualTime now);

  std::mutex mutex_;
  std::map<VirtualTime, VirtualTime> busy_;  // from, until; disjoint and not adjacent
};

// How long `bytes` take at that rate, in whole ns, rounded up.
VirtualDuration transfer_time(std::uint64_t bytes, std::uint64_t bytes_per_s);

}  // namespace warpserve::gpu
