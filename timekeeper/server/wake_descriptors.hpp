// The eventfds that members wait on in poll, by slot.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "timekeeper/server/fd.hpp"

namespace warpserve {

class WakeDescriptors {
 public:
  void put(std::uint32_t slot, Fd eventfd) {
    const std::lock_guard lock(mutex_);
    by_slot_[slot] = std::move(eventfd);
  }

  void ring(std::uint32_t slot) {
    const std::lock_guard lock(mutex_);
    const auto found = by_slot_.find(slot);
    if (found == by_slot_.end()) return;
    // Fails only when the counter is full, and then it is readable already.
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t bytes = write(found->second.get(), &one, sizeof one);
  }

  void drop(std::uint32_t slot) {
    const std::lock_guard lock(mutex_);
    by_slot_.erase(slot);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, Fd> by_slot_;
};

}  // namespace warpserve
