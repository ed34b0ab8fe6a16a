#include "cuda_shim/entry/graph_memory.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace warpserve::gpu {
namespace {

enum Attribute : std::uint32_t {
  kUsedCurrent = 0,
  kUsedHigh = 1,
  kReservedCurrent = 2,
  kReservedHigh = 3,
};

struct GraphMemory;

// What graphs keep is both used and reserved.
struct KeptBytes {
  std::uint64_t current = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved_high = 0;

  void add(std::uint64_t bytes) {
    current += bytes;
    used_high = std::max(used_high, current);
    reserved_high = std::max(reserved_high, current);
  }
};

// That which graphs keep.
struct KeptMemory {
  std::mutex mutex;
  std::map<Address, std::weak_ptr<GraphMemory>> by_address;
  std::map<int, KeptBytes> by_device;  // of the machine
};

KeptMemory& kept() {
  static auto& instance = *std::make_unique<KeptMemory>().release();
  return instance;
}

struct GraphMemory {
  explicit GraphMemory(const PointerInfo& info)
      : address(info.base), device(info.device), bytes(info.bytes) {}
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory() {
    const std::lock_guard lock(kept().mutex);
    kept().by_address.erase(address);
    kept().by_device[device].current -= bytes;
    if (!in_use) static_cast<void>(process_memory().free(address));
  }

  const Address address;
  const int device;
  const std::uint64_t bytes;
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
  const auto memory = std::make_shared<GraphMemory>(value_of(process_memory().query(address)));
  {
    const std::lock_guard lock(kept().mutex);
    kept().by_address[address] = memory;
    kept().by_device[memory->device].add(memory->bytes);
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

std::uint64_t graph_memory_attribute(const Device& device, std::uint32_t attribute) {
  const std::lock_guard lock(kept().mutex);
  const KeptBytes& bytes = kept().by_device[device.physical];
  switch (attribute) {
    case kUsedCurrent:
    case kReservedCurrent:
      return bytes.current;
    case kUsedHigh:
      return bytes.used_high;
    case kReservedHigh:
      return bytes.reserved_high;
    default:
      fail(Error::kInvalidValue);
  }
}

void reset_graph_memory_high_water(const Device& device, std::uint32_t attribute,
                                   std::uint64_t value) {
  require(value == 0 && (attribute == kUsedHigh || attribute == kReservedHigh));
  const std::lock_guard lock(kept().mutex);
  KeptBytes& bytes = kept().by_device[device.physical];
  (attribute == kUsedHigh ? bytes.used_high : bytes.reserved_high) = bytes.current;
}

void trim_graph_memory(const Device& device) {
  process_memory().pools().on_synchronize(device.physical);
}

}  // namespace warpserve::gpu
