#include "cuda_shim/memory/host_memory.hpp"

#include <vector>

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

TEST(pinned_memory_is_known) {
  Memory memory(small_machine(), small_options());
  HostMemory& host = memory.host();
  const Address address = host.allocate(1, 10'000, 3).value();
  as<char>(address)[9999] = 1;
  const PointerInfo info = memory.query(address + 9999).value();
  CHECK_EQ(info.kind, MemoryKind::kPinned);
  CHECK_EQ(info.base, address);
  CHECK_EQ(info.bytes, 10'000u);
  CHECK_EQ(info.flags, 3u);
  CHECK_EQ(info.device, 1);
  CHECK(host.covers(address + 1, 9999));
  CHECK(!host.covers(address + 1, 10'000));
  CHECK_STATUS(memory.free(address), kInvalidPointer);
  CHECK_STATUS(host.free(address + 1), kInvalidPointer);
  CHECK_STATUS(host.free(address), kOk);
  CHECK_STATUS(host.free(address), kInvalidPointer);
  CHECK_EQ(memory.query(address).value().kind, MemoryKind::kUnregistered);
  CHECK_EQ(host.allocate(0, 0, 0).value(), 0u);
}

TEST(host_memory_can_be_registered_once) {
  Memory memory(small_machine(), small_options());
  HostMemory& host = memory.host();
  std::vector<char> buffer(10'000);
  const Address address = address_of(buffer.data());
  CHECK_STATUS(host.register_range(0, address, 8000, 2), kOk);
  CHECK_STATUS(host.register_range(0, address, 8000, 2), kAlreadyRegistered);
  CHECK_STATUS(host.register_range(0, address + 7999, 100, 2), kAlreadyRegistered);
  CHECK_STATUS(host.register_range(0, address + 8000, 100, 2), kOk);
  CHECK_EQ(memory.query(address + 7999).value().kind, MemoryKind::kRegistered);
  CHECK_EQ(memory.query(address + 7999).value().base, address);
  // A copy may run over the registered part.
  CHECK(memory.copies()
            .plan(memory.allocate(0, 10'000).value(), address, 10'000, CopyKind::kHostToDevice)
            .ok());
  CHECK_STATUS(host.unregister(address + 1), kNotRegistered);
  CHECK_STATUS(host.unregister(address), kOk);
  CHECK_STATUS(host.unregister(address), kNotRegistered);
  CHECK_STATUS(host.register_range(0, memory.allocate(0, 100).value(), 50, 0), kInvalidValue);
  CHECK_STATUS(host.register_range(0, 0, 50, 0), kInvalidValue);
  CHECK_STATUS(host.register_range(0, address, 0, 0), kInvalidValue);
}

TEST(host_memory_has_a_budget) {
  Memory memory(small_machine(), small_options());
  HostMemory& host = memory.host();
  const Address all = host.allocate(0, 64 * kMiB, 0).value();
  CHECK_STATUS(host.allocate(0, 1, 0).status(), kOutOfMemory);
  char byte = 0;
  CHECK_STATUS(host.register_range(0, address_of(&byte), 1, 0), kOutOfMemory);
  CHECK_STATUS(host.allocate_managed(0, 1, 1).status(), kOutOfMemory);
  CHECK_STATUS(host.free(all), kOk);
  CHECK_STATUS(host.register_range(0, address_of(&byte), 1, 0), kOk);
  CHECK_STATUS(host.allocate(0, 64 * kMiB, 0).status(), kOutOfMemory);
}

TEST(managed_memory_is_readable_whatever_its_size) {
  Memory memory(small_machine(), small_options());
  const Address address = memory.host().allocate_managed(1, 32 * kMiB, 1).value();
  as<char>(address)[32 * kMiB - 1] = 1;
  const PointerInfo info = memory.query(address).value();
  CHECK_EQ(info.kind, MemoryKind::kManaged);
  CHECK_EQ(info.device, 1);
  CHECK_EQ(free_bytes(memory, 1), kUsable);
  int on_stack = 0;
  for (const CopyKind kind : {CopyKind::kHostToDevice, CopyKind::kHostToHost}) {
    CHECK(memory.copies().plan(address, address_of(&on_stack), 4, kind).ok());
  }
  CHECK_STATUS(memory.free(address), kOk);
  CHECK(memory.host().allocate(0, 64 * kMiB, 0).ok());
}

TEST(large_pinned_memory_is_not_populated) {
  Memory memory(small_machine(),
                {.host_memory_bytes = 1024 * kGiB, .arena_bytes = kGiB, .account_path = {}});
  CHECK(memory.host().allocate(0, 512 * kGiB, 0).ok());
}
