// Random programs of physical memory and mappings, against a model of what is mapped where.
#include <array>
#include <map>
#include <random>
#include <vector>

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

namespace {

constexpr std::size_t kSlots = 12;

struct Known {
  int handle_uses = 1;
  int mappings = 0;
  int content = 0;
};

class Mapper {
 public:
  explicit Mapper(std::uint64_t seed) : random_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      switch (random_() % 5) {
        case 0:
          create();
          break;
        case 1:
          map();
          break;
        case 2:
          unmap();
          break;
        case 3:
          release();
          break;
        default:
          retain_and_write();
      }
      check();
    }
  }

 private:
  Address address_of_slot(std::size_t slot) const { return base_ + slot * kBlock; }
  std::size_t some_slot() { return random_() % kSlots; }
  // One that exists, or has existed.
  PhysicalId some_physical() { return {1 + random_() % (last_.value + 1)}; }
  bool has_handle(PhysicalId id) const {
    return known_.contains(id) && known_.at(id).handle_uses > 0;
  }
  void forget_if_unused(PhysicalId id) {
    if (known_.at(id).handle_uses == 0 && known_.at(id).mappings == 0) known_.erase(id);
  }

  void create() {
    if (known_.size() >= 6) return;
    last_ = virtual_memory_.create(0, kBlock, random_() % 2 == 0).value();
    known_.emplace(last_, Known{});
  }

  void map() {
    const std::size_t slot = some_slot();
    const PhysicalId id = some_physical();
    const MemoryStatus status = virtual_memory_.map(address_of_slot(slot), kBlock, id);
    if (!has_handle(id)) {
      CHECK_EQ(status, MemoryStatus::kInvalidHandle);
    } else if (slots_[slot].value != 0) {
      CHECK_EQ(status, MemoryStatus::kInvalidValue);
    } else {
      CHECK_EQ(status, MemoryStatus::kOk);
      CHECK_STATUS(virtual_memory_.set_access(address_of_slot(slot), kBlock, 0, Access::kReadWrite),
                   kOk);
      slots_[slot] = id;
      ++known_.at(id).mappings;
    }
  }

  void unmap() {
    const std::size_t slot = some_slot();
    const PhysicalId id = slots_[slot];
    CHECK_EQ(virtual_memory_.unmap(address_of_slot(slot), kBlock),
             id.value == 0 ? MemoryStatus::kInvalidValue : MemoryStatus::kOk);
    if (id.value == 0) return;
    slots_[slot] = {};
    --known_.at(id).mappings;
    forget_if_unused(id);
  }

  void release() {
    const PhysicalId id = some_physical();
    CHECK_EQ(virtual_memory_.release(id),
             has_handle(id) ? MemoryStatus::kOk : MemoryStatus::kInvalidHandle);
    if (!has_handle(id)) return;
    --known_.at(id).handle_uses;
    forget_if_unused(id);
  }

  void retain_and_write() {
    const std::size_t slot = some_slot();
    const PhysicalId id = slots_[slot];
    const Result<PhysicalId> retained = virtual_memory_.retain(address_of_slot(slot) + 9);
    CHECK_EQ(retained.ok(), id.value != 0);
    if (!retained.ok()) return;
    CHECK_EQ(retained.value().value, id.value);
    ++known_.at(id).handle_uses;
    known_.at(id).content = static_cast<int>(random_());
    as<int>(address_of_slot(slot))[3] = known_.at(id).content;
  }

  void check() {
    CHECK_EQ(free_bytes(memory_), kUsable - known_.size() * kBlock);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const PhysicalId id = slots_[slot];
      CHECK_EQ(memory_.query(address_of_slot(slot)).ok(), id.value != 0);
      if (id.value != 0) CHECK_EQ(as<int>(address_of_slot(slot))[3], known_.at(id).content);
    }
  }

  std::mt19937_64 random_;
  Memory memory_{small_machine(), small_options()};
  VirtualMemory& virtual_memory_ = memory_.virtual_memory();
  const Address base_ = virtual_memory_.reserve(kSlots * kBlock).value();
  PhysicalId last_;
  std::map<PhysicalId, Known> known_;
  std::array<PhysicalId, kSlots> slots_{};  // 0: nothing is mapped
};

}  // namespace

TEST(random_mappings_agree_with_the_model) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) Mapper(seed).run(300);
}
