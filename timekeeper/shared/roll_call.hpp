// Who of a group has come to its next common step, and who has not: written by members whose
// libraries make processes wait for one another (the ranks of a GPU communicator), read by the
// Timekeeper for its stall report (T8).
//
// A file of the session's folder, mapped by all of them. A place is written by its owner only. The
// Timekeeper reads when all threads sleep; a text that is being written can do no harm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "timekeeper/shared/sync.hpp"

namespace warpserve {

inline constexpr char kRollCallFile[] = "roll-calls";
inline constexpr std::size_t kRollCalls = 512;
inline constexpr std::size_t kRollCallPlaces = 64;
inline constexpr std::int32_t kNobody = -1;

struct RollCallPlace {
  SharedAtomic<std::uint32_t> pid;    // 0: has not joined, or has left
  SharedAtomic<std::uint32_t> steps;  // 0: has not joined; who is behind others is waited for
  SharedAtomic<std::int32_t> peer;    // the only one that it waits for, or kNobody
  char step[20];                      // what it waits in, NUL-terminated
};
static_assert(sizeof(RollCallPlace) == 32);

struct RollCall {
  SharedAtomic<std::uint32_t> size;  // 0: free
  std::array<RollCallPlace, kRollCallPlaces> places;
};

using RollCalls = std::array<RollCall, kRollCalls>;

}  // namespace warpserve
