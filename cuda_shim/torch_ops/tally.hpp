// How often an operator left control memory as it was, though it should have computed it. Results
// that depend on it are unknown, so it is counted, by name.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace warpserve::torch_ops {

// Of one operator. Any thread may call anything.
class Tally {
 public:
  explicit Tally(std::string name) : name_(std::move(name)) {}
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  // It read memory that has no contents.
  void add_from_compute_memory() { from_compute_memory_.fetch_add(1, std::memory_order_relaxed); }
  // There is no way to execute it on the CPU.
  void add_not_computed() { not_computed_.fetch_add(1, std::memory_order_relaxed); }

  const std::string& name() const { return name_; }
  std::uint64_t from_compute_memory() const { return from_compute_memory_.load(); }
  std::uint64_t not_computed() const { return not_computed_.load(); }

 private:
  const std::string name_;
  std::atomic<std::uint64_t> from_compute_memory_ = 0;
  std::atomic<std::uint64_t> not_computed_ = 0;
};

// One more, that lives as long as the process.
Tally& new_tally(std::string name);

// Whether any has: then what is in control memory may be anything.
bool something_is_unknown();

// Calls `each` with all that have counted something.
void for_each_tally(const std::function<void(const Tally&)>& each);

}  // namespace warpserve::torch_ops
