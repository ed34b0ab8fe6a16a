#include "cuda_shim/memory/virtual_memory.hpp"

#include <unistd.h>

#include "tests/native/gpu_memory/child_process.hpp"
#include "tests/native/gpu_memory/fixture.hpp"
#include "tests/native/gpu_memory/temporary_folder.hpp"

using namespace warpserve::gpu;

namespace {

Address mapped(Memory& memory, PhysicalId physical) {
  VirtualMemory& virtual_memory = memory.virtual_memory();
  const std::uint64_t bytes = virtual_memory.info(physical).value().bytes;
  const Address address = virtual_memory.reserve(bytes).value();
  CHECK_STATUS(virtual_memory.map(address, bytes, physical), kOk);
  CHECK_STATUS(virtual_memory.set_access(address, bytes, 0, Access::kReadWrite), kOk);
  return address;
}

}  // namespace

TEST(contents_follow_the_physical_memory) {
  Memory memory(small_machine(), small_options());
  VirtualMemory& virtual_memory = memory.virtual_memory();
  const PhysicalId physical = virtual_memory.create(0, kBlock).value();
  const Address first = mapped(memory, physical);
  as<int>(first)[100] = 42;
  CHECK_STATUS(virtual_memory.unmap(first, kBlock), kOk);
  CHECK_STATUS(memory.query(first).status(), kInvalidPointer);
  const Address second = mapped(memory, physical);
  CHECK(second != first);
  CHECK_EQ(as<int>(second)[100], 42);
  // At two addresses at once.
  CHECK_STATUS(virtual_memory.map(first, kBlock, physical), kOk);
  CHECK_STATUS(virtual_memory.set_access(first, kBlock, 0, Access::kReadWrite), kOk);
  as<int>(first)[101] = 43;
  CHECK_EQ(as<int>(second)[101], 43);
}

TEST(physical_memory_counts_until_it_is_neither_held_nor_mapped) {
  Memory memory(small_machine(), small_options());
  VirtualMemory& virtual_memory = memory.virtual_memory();
  const PhysicalId physical = virtual_memory.create(0, 20 * kMiB).value();
  CHECK_EQ(free_bytes(memory), kUsable - 20 * kMiB);
  const Address address = mapped(memory, physical);
  CHECK_STATUS(virtual_memory.release(physical), kOk);
  CHECK_STATUS(virtual_memory.release(physical), kInvalidHandle);
  CHECK_EQ(free_bytes(memory), kUsable - 20 * kMiB);
  CHECK_EQ(virtual_memory.retain(address + 5).value().value, physical.value);
  CHECK_STATUS(virtual_memory.unmap(address, 20 * kMiB), kOk);
  CHECK_EQ(free_bytes(memory), kUsable - 20 * kMiB);
  CHECK_STATUS(virtual_memory.release(physical), kOk);
  CHECK_EQ(free_bytes(memory), kUsable);
  CHECK_STATUS(virtual_memory.free_reservation(address, 20 * kMiB), kOk);
}

// As an engine's sleep mode does it: the addresses stay, the memory goes and comes back.
TEST(addresses_outlive_the_memory_behind_them) {
  Memory memory(small_machine(), small_options());
  VirtualMemory& virtual_memory = memory.virtual_memory();
  const std::uint64_t bytes = 128 * kMiB;
  const Address address = virtual_memory.reserve(bytes).value();
  for (int round = 0; round < 3; ++round) {
    const PhysicalId physical = virtual_memory.create(0, bytes).value();
    CHECK_STATUS(virtual_memory.map(address, bytes, physical), kOk);
    CHECK_STATUS(virtual_memory.set_access(address, bytes, 0, Access::kReadWrite), kOk);
    CHECK_EQ(memory.contents(address, bytes).value(), Contents::kNone);
    CHECK_STATUS(virtual_memory.unmap(address, bytes), kOk);
    CHECK_STATUS(virtual_memory.release(physical), kOk);
    CHECK_EQ(free_bytes(memory), kUsable);
  }
  CHECK_STATUS(virtual_memory.create(0, kUsable + kBlock).status(), kOutOfMemory);
}

// As torch's expandable segments do it: memory is added behind what is there.
TEST(a_range_grows_by_mappings_side_by_side) {
  Memory memory(small_machine(), small_options());
  VirtualMemory& virtual_memory = memory.virtual_memory();
  const Address base = virtual_memory.reserve(64 * kMiB).value();
  for (std::uint64_t i = 0; i < 3; ++i) {
    const PhysicalId physical = virtual_memory.create(0, kBlock).value();
    CHECK_STATUS(virtual_memory.map(base + i * kBlock, kBlock, physical), kOk);
  }
  CHECK_STATUS(virtual_memory.set_access(base, 3 * kBlock, 0, Access::kReadWrite), kOk);
  memory.copies().plan_fill(base + kBlock - 4, 7, kBlock + 8).value().move();
  CHECK_EQ(as<char>(base)[kBlock - 5], 0);
  CHECK_EQ(as<char>(base)[kBlock - 4], 7);
  CHECK_EQ(as<char>(base)[2 * kBlock + 3], 7);
  CHECK_EQ(as<char>(base)[2 * kBlock + 4], 0);
  CHECK_STATUS(memory.copies().plan_fill(base, 7, 3 * kBlock + 1).status(), kOutOfBounds);
  CHECK_STATUS(virtual_memory.unmap(base + kBlock, kBlock), kOk);
  CHECK_STATUS(memory.copies().plan_fill(base, 7, 2 * kBlock).status(), kOutOfBounds);
  CHECK_STATUS(virtual_memory.free_reservation(base, 64 * kMiB), kInvalidValue);
}

TEST(access_has_to_be_given) {
  Memory memory(small_machine(), small_options());
  VirtualMemory& virtual_memory = memory.virtual_memory();
  const PhysicalId physical = virtual_memory.create(0, kBlock).value();
  const Address address = virtual_memory.reserve(kBlock).value();
  CHECK_STATUS(virtual_memory.set_access(address, kBlock, 0, Access::kReadWrite), kInvalidValue);
  CHECK_STATUS(virtual_memory.map(address, kBlock, physical), kOk);
  CHECK_STATUS(memory.copies().plan_fill(address, 0, 1).status(), kInvalidPointer);
  CHECK_EQ(virtual_memory.access(address, 0).value(), Access::kNone);
  CHECK_STATUS(virtual_memory.set_access(address, kBlock, 1, Access::kReadWrite), kOk);
  CHECK_EQ(virtual_memory.access(address, 1).value(), Access::kReadWrite);
  CHECK_EQ(virtual_memory.access(address, 0).value(), Access::kNone);
  CHECK(memory.copies().plan_fill(address, 0, 1).ok());
}

TEST(wrong_ranges_are_errors) {
  Memory memory(small_machine(), small_options());
  VirtualMemory& virtual_memory = memory.virtual_memory();
  CHECK_STATUS(virtual_memory.reserve(kBlock - 1).status(), kInvalidValue);
  CHECK_STATUS(virtual_memory.reserve(0).status(), kInvalidValue);
  CHECK_STATUS(virtual_memory.reserve(kBlock, 3).status(), kInvalidValue);
  CHECK_EQ(virtual_memory.reserve(kBlock, 64 * kMiB).value() % (64 * kMiB), 0u);
  CHECK_STATUS(virtual_memory.create(0, 100).status(), kInvalidValue);
  CHECK_STATUS(virtual_memory.create(7, kBlock).status(), kInvalidDevice);
  const PhysicalId physical = virtual_memory.create(0, 2 * kBlock).value();
  const Address address = virtual_memory.reserve(4 * kBlock).value();
  CHECK_STATUS(virtual_memory.map(address, kBlock, physical), kInvalidValue);
  CHECK_STATUS(virtual_memory.map(address + 3 * kBlock, 2 * kBlock, physical), kInvalidValue);
  CHECK_STATUS(virtual_memory.map(address, 2 * kBlock, PhysicalId{99}), kInvalidHandle);
  CHECK_STATUS(virtual_memory.map(address, 2 * kBlock, physical), kOk);
  CHECK_STATUS(virtual_memory.map(address + kBlock, 2 * kBlock, physical), kInvalidValue);
  CHECK_STATUS(virtual_memory.unmap(address, kBlock), kInvalidValue);
  CHECK_STATUS(virtual_memory.unmap(address, 3 * kBlock), kInvalidValue);
  CHECK_STATUS(virtual_memory.free_reservation(address, 2 * kBlock), kInvalidValue);
  CHECK_STATUS(memory.free(address), kInvalidPointer);
  CHECK_STATUS(virtual_memory.unmap(address, 2 * kBlock), kOk);
  CHECK_STATUS(virtual_memory.free_reservation(address, 4 * kBlock), kOk);
  CHECK_STATUS(virtual_memory.free_reservation(address, 4 * kBlock), kInvalidValue);
}

TEST(a_descriptor_carries_the_same_bytes_to_another_process) {
  const TemporaryFolder folder;
  const std::string path = folder.file("gpu-memory");
  Memory memory(small_machine(), small_options(path));
  VirtualMemory& virtual_memory = memory.virtual_memory();
  const PhysicalId physical = virtual_memory.create(0, kBlock, true).value();
  const Address address = mapped(memory, physical);
  as<int>(address)[7] = 1234;
  const int descriptor = virtual_memory.export_descriptor(physical).value();
  ChildProcess child([&path, descriptor](const Pipe&, const Pipe&) {
    Memory of_child(small_machine(), small_options(path));
    const PhysicalId imported = of_child.virtual_memory().import_descriptor(descriptor).value();
    CHECK_EQ(of_child.virtual_memory().info(imported).value().bytes, kBlock);
    const Address there = mapped(of_child, imported);
    CHECK_EQ(as<int>(there)[7], 1234);
    as<int>(there)[8] = 5678;
    // It counts once.
    CHECK_EQ(free_bytes(of_child), kUsable - kBlock);
  });
  CHECK_EQ(child.wait(), 0);
  CHECK_EQ(as<int>(address)[8], 5678);
  close(descriptor);

  const PhysicalId large = virtual_memory.create(0, 16 * kMiB, true).value();
  const int of_large = virtual_memory.export_descriptor(large).value();
  const PhysicalId again = virtual_memory.import_descriptor(of_large).value();
  CHECK_EQ(virtual_memory.info(again).value().residency, Residency::kCompute);
  close(of_large);

  CHECK_STATUS(virtual_memory.export_descriptor(virtual_memory.create(0, kBlock).value()).status(),
               kInvalidValue);
  CHECK_STATUS(virtual_memory.import_descriptor(STDIN_FILENO).status(), kInvalidValue);
  CHECK_STATUS(virtual_memory.import_descriptor(-1).status(), kInvalidValue);
}

TEST(reset_unmaps_what_is_on_the_device) {
  Memory memory(small_machine(), small_options());
  const PhysicalId physical = memory.virtual_memory().create(0, kBlock).value();
  const Address address = mapped(memory, physical);
  CHECK_STATUS(memory.reset(0), kOk);
  CHECK_EQ(free_bytes(memory), kUsable);
  CHECK_STATUS(memory.query(address).status(), kInvalidPointer);
  CHECK_STATUS(memory.virtual_memory().release(physical), kInvalidHandle);
}
