// Handles: what programs hold of our objects. A handle is valid while the object is registered, so
// use after destroy is an error code and never a crash.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace warpserve::gpu {

template <class Object>
class Handles {
 public:
  void* add(std::shared_ptr<Object> object) {
    void* const handle = object.get();
    const std::unique_lock lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  // Null where the handle is none.
  std::shared_ptr<Object> find(const void* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(const void* handle) {
    const std::unique_lock lock(mutex_);
    auto node = objects_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  template <class Predicate>
  bool any_of(const Predicate& predicate) const {
    const std::shared_lock lock(mutex_);
    return std::ranges::any_of(objects_,
                               [&](const auto& entry) { return predicate(*entry.second); });
  }

  template <class Predicate>
  void remove_if(const Predicate& predicate) {
    std::vector<std::shared_ptr<Object>> removed;  // destroyed when the lock is released
    const std::unique_lock lock(mutex_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (predicate(*it->second)) {
        removed.push_back(std::move(it->second));
        it = objects_.erase(it);
      } else {
        ++it;
      }
    }
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

// The handles of one kind of object in this process. Never destroyed: programs call from the
// destructors of their static objects.
template <class Object>
Handles<Object>& handles() {
  static auto& instance = *std::make_unique<Handles<Object>>().release();
  return instance;
}

}  // namespace warpserve::gpu
