#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

namespace {

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

constexpr std::uint64_t kH100Usable = 85'017'755'648;

}  // namespace

TEST(eight_full_gpus_take_little_of_the_host) {
  const Machine machine = machine_with(8, kH100Usable);
  const std::uint64_t before = resident_bytes();
  Memory memory(machine, {.arena_bytes = 128 * kGiB});
  std::uint64_t filled = 0;
  for (int device = 0; device < 8; ++device) {
    CHECK_STATUS(memory.open_context(device), kOk);
    // As a caching allocator does it: many segments, and then one large buffer.
    for (int i = 0; i < 1000; ++i) CHECK(memory.allocate(device, 20 * kMiB).ok());
    const std::uint64_t left = round_down(free_bytes(memory, device), kBlock);
    const Address rest = memory.allocate(device, left).value();
    memory.copies().plan_fill(rest, 0, left).value().move();
    CHECK(free_bytes(memory, device) < kBlock);
    filled += kH100Usable;
  }
  const std::uint64_t more = resident_bytes() - before;
  std::cout << "filled " << filled / kGiB << " GiB, resident " << more / kMiB << " MiB more\n";
  CHECK(more < 150 * kMiB);
}
