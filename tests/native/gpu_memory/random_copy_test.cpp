// Random copies and fills among all kinds of memory, against a copy of what each should hold.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

namespace {

// A range of which each part is host, control or compute memory.
struct Buffer {
  Address base = 0;
  std::uint64_t bytes = 0;
  bool bounded = true;        // not of the host's own
  std::vector<bool> real;     // by byte
  std::vector<char> content;  // of the bytes that are real
};

class Copier {
 public:
  explicit Copier(std::uint64_t seed) : random_(seed) {
    add(memory_.allocate(0, 1000).value(), 1000, true);
    add(memory_.allocate(1, 700).value(), 700, true);
    add(memory_.allocate(0, 5 * kMiB).value(), 4096, false);
    add(memory_.host().allocate(0, 900, 0).value(), 900, true);
    add(memory_.host().allocate_managed(0, 800, 1).value(), 800, true);
    add(memory_.pools().allocate(memory_.pools().current(1).value(), 600).value(), 600, true);
    add(address_of(host_.data()), host_.size(), true);
    buffers_.back().bounded = false;
    buffers_[2].bounded = false;  // the model knows its beginning only
    add_mappings();
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (random_() % 4 == 0) {
        fill();
      } else {
        copy();
      }
    }
    for (const Buffer& buffer : buffers_) {
      for (std::uint64_t i = 0; i < buffer.bytes; ++i) {
        if (buffer.real[i]) CHECK_EQ(as<char>(buffer.base)[i], buffer.content[i]);
      }
    }
  }

 private:
  void add(Address base, std::uint64_t bytes, bool real) {
    buffers_.push_back(
        {base, bytes, true, std::vector<bool>(bytes, real), std::vector<char>(bytes)});
  }

  // Control memory, and compute memory beside it, of which the model knows the border.
  void add_mappings() {
    VirtualMemory& virtual_memory = memory_.virtual_memory();
    const Address base = virtual_memory.reserve(8 * kMiB).value();
    const PhysicalId control = virtual_memory.create(0, kBlock).value();
    const PhysicalId compute = virtual_memory.create(0, 3 * kBlock).value();
    CHECK_STATUS(virtual_memory.map(base, kBlock, control), kOk);
    CHECK_STATUS(virtual_memory.map(base + kBlock, 3 * kBlock, compute), kOk);
    CHECK_STATUS(virtual_memory.set_access(base, 4 * kBlock, 0, Access::kReadWrite), kOk);
    add(base + kBlock - 500, 1000, true);
    buffers_.back().bounded = false;
    std::fill(buffers_.back().real.begin() + 500, buffers_.back().real.end(), false);
  }

  Buffer& some_buffer() { return buffers_[random_() % buffers_.size()]; }

  void copy() {
    Buffer& to = some_buffer();
    Buffer& from = some_buffer();
    if (&to == &from) return;
    const std::uint64_t to_offset = random_() % to.bytes;
    const std::uint64_t from_offset = random_() % from.bytes;
    const std::uint64_t bytes = 1 + random_() % 800;
    const bool to_fits = to_offset + bytes <= to.bytes;
    const bool from_fits = from_offset + bytes <= from.bytes;
    if ((!to_fits && !to.bounded) || (!from_fits && !from.bounded)) return;
    const Result<CopyPlan> plan = memory_.copies().plan(
        to.base + to_offset, from.base + from_offset, bytes, CopyKind::kInfer);
    CHECK_EQ(plan.status(), to_fits && from_fits ? MemoryStatus::kOk : MemoryStatus::kOutOfBounds);
    if (!plan.ok()) return;
    plan.value().move();
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (to.real[to_offset + i] && from.real[from_offset + i]) {
        to.content[to_offset + i] = from.content[from_offset + i];
      }
    }
  }

  void fill() {
    Buffer& to = some_buffer();
    const std::uint64_t offset = random_() % to.bytes;
    const std::uint64_t bytes = 1 + random_() % (to.bytes - offset);
    const auto value = static_cast<std::uint8_t>(random_());
    const Result<FillPlan> plan = memory_.copies().plan_fill(to.base + offset, value, bytes);
    if (to.base == address_of(host_.data())) {
      CHECK_EQ(plan.status(), MemoryStatus::kInvalidPointer);
      return;
    }
    plan.value().move();
    for (std::uint64_t i = offset; i < offset + bytes; ++i) {
      if (to.real[i]) to.content[i] = static_cast<char>(value);
    }
  }

  std::mt19937_64 random_;
  std::string host_ = std::string(2000, '\0');
  Memory memory_{small_machine(), small_options()};
  std::vector<Buffer> buffers_;
};

}  // namespace

TEST(random_copies_agree_with_the_model) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) Copier(seed).run(500);
}
