// What a rank tells the session's stall report: which operation it has come to.
#pragma once

#include <cstdint>

#include "timekeeper/shared/roll_call.hpp"

namespace warpserve::gpu::nccl {

// A roll call for so many ranks: its number from 1 on, or 0 where there is none to be had (outside
// of a session, or for more ranks or communicators than a session tells apart).
std::uint32_t open_roll(int ranks);
// One in which nobody has a place.
void close_roll(std::uint32_t number);

// One rank's place in it. Its first step is to have joined. `what` is a short word.
class RollPlace {
 public:
  RollPlace() = default;
  // `number` of open_roll.
  RollPlace(std::uint32_t number, int rank);

  void come_to(std::uint64_t step, const char* what);
  void wait_for(int peer, const char* what);
  void wait_for_nobody();
  // The last to leave frees the roll call.
  void leave();

 private:
  void say(const char* what);

  RollCall* call_ = nullptr;
  RollCallPlace* place_ = nullptr;
};

}  // namespace warpserve::gpu::nccl
