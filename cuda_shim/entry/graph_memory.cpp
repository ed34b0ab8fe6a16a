#include "cuda_shim/entry/graph_memory.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace warpserve::gpu {
namespace {

struct GraphMemory;

// That which graphs keep.
struct KeptMemory {
  std::mutex mutex;
  std::map<Address, std::weak_ptr<GraphMemory>> by_address;
};

KeptMemory& kept() {
  static auto& instance = *std::make_unique<KeptMemory>().release();
  return instance;
}

struct GraphMemory {
  explicit GraphMemory(Address allocated) : address(allocated) {}
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory() {
    const std::lock_guard lock(kept().mutex);
    kept().by_address.erase(address);
    if (!in_use) static_cast<void>(process_memory().free(address));
  }

  const Address address;
  std::atomic<bool> in_use = false;  // a launch has allocated it, and nobody has freed it
};

std::shared_ptr<GraphMemory> find(Address address) {
  const std::lock_guard lock(kept().mutex);
  const auto found = kept().by_address.find(address);
  return found == kept().by_address.end() ? nullptr : found->second.lock();
}

void submit(Stream& stream, const std::shared_ptr<GraphMemory>& memory, bool frees) {
  // Of the node, which keeps the memory: the effect need not.
  const auto effect = [known = std::weak_ptr(memory), frees] {
    if (const auto living = known.lock()) living->in_use = !frees;
  };
  const Error error = error_of(stream.submit(MemoryWork{memory, frees}, effect));
  if (error != Error::kSuccess) fail(error);
}

}  // namespace

void submit_allocation(Stream& stream, Address address) {
  const auto memory = std::make_shared<GraphMemory>(address);
  {
    const std::lock_guard lock(kept().mutex);
    kept().by_address[address] = memory;
  }
  submit(stream, memory, false);
}

void submit_free(Stream& stream, Address address) {
  const auto memory = find(address);
  require(memory != nullptr);
  submit(stream, memory, true);
}

bool free_graph_memory(Address address) {
  const auto memory = find(address);
  if (memory == nullptr) return false;
  require(memory->in_use.exchange(false));
  return true;
}

}  // namespace warpserve::gpu
