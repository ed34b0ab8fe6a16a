// Random programs of allocations, frees and questions, against a plain model of what is allocated.
#include <array>
#include <map>
#include <random>
#include <vector>

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

namespace {

struct Known {
  std::uint64_t bytes = 0;
  int device = 0;
  bool from_pool = false;
  char fill = 0;
};

class Model {
 public:
  void add(Address base, Known known) {
    const auto after = live_.lower_bound(base);
    CHECK(after == live_.end() || base + known.bytes <= after->first);
    CHECK(after == live_.begin() ||
          std::prev(after)->first + std::prev(after)->second.bytes <= base);
    live_.emplace(base, known);
    past_.push_back(base);
  }
  void remove(Address base) { live_.erase(base); }

  const std::pair<const Address, Known>* find(Address address) const {
    const auto after = live_.upper_bound(address);
    if (after == live_.begin()) return nullptr;
    const auto& candidate = *std::prev(after);
    return address - candidate.first < candidate.second.bytes ? &candidate : nullptr;
  }
  std::uint64_t whole_blocks(int device) const {
    return sum(kBlock, [device](const Known& known) {
      return known.device == device && !known.from_pool && known.bytes >= kBlock;
    });
  }
  std::uint64_t small_bytes(int device) const {
    return sum(512, [device](const Known& known) {
      return known.device == device && !known.from_pool && known.bytes < kBlock;
    });
  }
  std::uint64_t pooled_bytes(int device) const {
    return sum(512,
               [device](const Known& known) { return known.device == device && known.from_pool; });
  }
  const std::map<Address, Known>& live() const { return live_; }
  // Whatever was allocated at any time, or 0.
  Address some_address(std::mt19937_64& random) const {
    return past_.empty() ? 0 : past_[random() % past_.size()];
  }

 private:
  template <class Predicate>
  std::uint64_t sum(std::uint64_t unit, Predicate counts) const {
    std::uint64_t bytes = 0;
    for (const auto& [base, known] : live_) {
      if (counts(known)) bytes += round_up(known.bytes, unit);
    }
    return bytes;
  }

  std::map<Address, Known> live_;
  std::vector<Address> past_;
};

class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      switch (random_() % 8) {
        case 0:
        case 1:
          allocate();
          break;
        case 2:
        case 3:
          free();
          break;
        case 4:
          memory_.pools().on_synchronize(static_cast<int>(random_() % 2));
          break;
        default:
          ask();
      }
    }
    check_figures();
    while (!model_.live().empty()) free_at(model_.live().begin()->first);
    check_figures();
  }

 private:
  void allocate() {
    constexpr std::array<std::uint64_t, 8> kSizes = {1,          511,    512,      100'000,
                                                     kBlock - 1, kBlock, 4 * kMiB, 40 * kMiB};
    const std::uint64_t bytes = kSizes[random_() % kSizes.size()] + random_() % 3;
    const int device = static_cast<int>(random_() % 2);
    const bool from_pool = random_() % 4 == 0;
    const Result<Address> made =
        from_pool ? memory_.pools().allocate(pool(device), bytes) : memory_.allocate(device, bytes);
    if (!made.ok()) {
      CHECK_EQ(made.status(), MemoryStatus::kOutOfMemory);
      CHECK(free_bytes(memory_, device) < round_up(bytes, kBlock));
      return;
    }
    const Known known{bytes, device, from_pool, static_cast<char>(random_())};
    model_.add(made.value(), known);
    memory_.copies()
        .plan_fill(made.value(), static_cast<std::uint8_t>(known.fill), bytes)
        .value()
        .move();
  }

  void free() { free_at(model_.some_address(random_) + random_() % 2 * 512); }

  void free_at(Address address) {
    const auto* const found = model_.find(address);
    const bool valid = address == 0 || (found != nullptr && found->first == address);
    check_contents(address);
    CHECK_EQ(memory_.free(address), valid ? MemoryStatus::kOk : MemoryStatus::kInvalidPointer);
    if (valid) model_.remove(address);
  }

  void ask() {
    const Address address = model_.some_address(random_) + random_() % (3 * kMiB);
    if (address < kBlock * 2) return;
    const auto* const found = model_.find(address);
    const Result<PointerInfo> info = memory_.query(address);
    CHECK_EQ(info.ok(), found != nullptr);
    if (found == nullptr || !info.ok()) return;
    CHECK_EQ(info.value().base, found->first);
    CHECK_EQ(info.value().bytes, found->second.bytes);
    CHECK_EQ(info.value().device, found->second.device);
    const std::uint64_t left = found->first + found->second.bytes - address;
    CHECK(memory_.contents(address, left).ok());
    CHECK_STATUS(memory_.contents(address, left + 1).status(), kOutOfBounds);
  }

  // What was written to control memory is still there.
  void check_contents(Address address) {
    const auto* const found = model_.find(address);
    if (found == nullptr || found->second.bytes >= 4 * kMiB) return;
    CHECK_EQ(*as<char>(found->first), found->second.fill);
    CHECK_EQ(*as<char>(found->first + found->second.bytes - 1), found->second.fill);
  }

  PoolId pool(int device) { return memory_.pools().default_pool(device).value(); }

  void check_figures() {
    for (int device = 0; device < 2; ++device) {
      const std::uint64_t used = kUsable - free_bytes(memory_, device);
      const PoolAttributes pooled = memory_.pools().attributes(pool(device)).value();
      CHECK_EQ(pooled.used_bytes, model_.pooled_bytes(device));
      CHECK(pooled.reserved_bytes >= pooled.used_bytes);
      const std::uint64_t shared = used - model_.whole_blocks(device) - pooled.reserved_bytes;
      CHECK_EQ(shared % kBlock, 0u);
      CHECK(shared >= model_.small_bytes(device));
      CHECK(model_.small_bytes(device) > 0 || shared == 0);
    }
  }

  std::mt19937_64 random_;
  Memory memory_{small_machine(), small_options()};
  Model model_;
};

}  // namespace

TEST(random_programs_agree_with_the_model) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) Program(seed).run(400);
}
