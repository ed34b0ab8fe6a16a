#include "cuda_shim/time/copy_engine.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace warpserve::gpu {

VirtualTime CopyEngine::reserve(VirtualTime ready, VirtualDuration duration) {
  const std::lock_guard lock(mutex_);
  VirtualTime from = ready;
  auto next = busy_.upper_bound(ready);
  if (next != busy_.begin()) from = std::max(from, std::prev(next)->second);
  for (; next != busy_.end() && next->first - from < duration; ++next) from = next->second;

  const VirtualTime until = from.saturating_add(duration);
  if (until == from) return until;
  auto reserved = busy_.emplace_hint(next, from, until);
  if (next != busy_.end() && next->first == until) {
    reserved->second = next->second;
    busy_.erase(next);
  }
  if (reserved != busy_.begin() && std::prev(reserved)->second == from) {
    std::prev(reserved)->second = reserved->second;
    busy_.erase(reserved);
  }
  return until;
}

void CopyEngine::forget_before(VirtualTime now) {
  const std::lock_guard lock(mutex_);
  while (!busy_.empty() && busy_.begin()->second <= now) busy_.erase(busy_.begin());
}

VirtualDuration transfer_time(std::uint64_t bytes, std::uint64_t bytes_per_s) {
  __extension__ using Wide = unsigned __int128;
  const Wide ns = (Wide{bytes} * 1'000'000'000 + bytes_per_s - 1) / bytes_per_s;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return VirtualDuration::from_ns(ns > Wide{kMost} ? kMost : static_cast<std::int64_t>(ns));
}

}  // namespace warpserve::gpu
