#include "cuda_shim/torch_ops/tally.hpp"

#include <deque>
#include <memory>
#include <mutex>

namespace warpserve::torch_ops {
namespace {

struct Tallies {
  std::mutex mutex;
  std::deque<Tally> all;
};

// Never destroyed: operators run until the process has ended.
Tallies& tallies() {
  static Tallies* const instance = std::make_unique<Tallies>().release();
  return *instance;
}

}  // namespace

Tally& new_tally(std::string name) {
  const std::lock_guard lock(tallies().mutex);
  return tallies().all.emplace_back(std::move(name));
}

bool something_is_unknown() {
  bool found = false;
  for_each_tally([&found](const Tally&) { found = true; });
  return found;
}

void for_each_tally(const std::function<void(const Tally&)>& each) {
  const std::lock_guard lock(tallies().mutex);
  for (const Tally& tally : tallies().all) {
    if (tally.from_compute_memory() + tally.not_computed() > 0) each(tally);
  }
}

}  // namespace warpserve::torch_ops
