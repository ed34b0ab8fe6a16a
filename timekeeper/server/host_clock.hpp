// Host time, as the Timekeeper sees it.
#pragma once

#include <time.h>

#include "timekeeper/core/types.hpp"

namespace warpserve {

inline HostTime host_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return HostTime::from_ns(static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
}

inline timespec to_timespec(HostTime time) {
  return timespec{.tv_sec = static_cast<time_t>(time.ns() / 1'000'000'000),
                  .tv_nsec = static_cast<long>(time.ns() % 1'000'000'000)};
}

}  // namespace warpserve
