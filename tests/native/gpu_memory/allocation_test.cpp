#include <thread>
#include <vector>

#include "tests/native/gpu_memory/child_process.hpp"
#include "tests/native/gpu_memory/fixture.hpp"
#include "tests/native/gpu_memory/temporary_folder.hpp"

using namespace warpserve::gpu;

TEST(small_allocations_are_control_memory) {
  Memory memory(small_machine(), small_options());
  const Address address = memory.allocate(0, 1000).value();
  const PointerInfo info = memory.query(address).value();
  CHECK_EQ(info.kind, MemoryKind::kDevice);
  CHECK_EQ(info.residency, Residency::kControl);
  as<char>(address)[999] = 7;
  CHECK_EQ(as<char>(address)[999], 7);
  const Address below = memory.allocate(0, 4 * kMiB - 1).value();
  CHECK_EQ(memory.query(below).value().residency, Residency::kControl);
  as<char>(below)[4 * kMiB - 2] = 7;
  const Address at = memory.allocate(0, 4 * kMiB).value();
  CHECK_EQ(memory.query(at).value().residency, Residency::kCompute);
  CHECK_EQ(memory.contents(below, 10).value(), Contents::kReal);
  CHECK_EQ(memory.contents(at, 10).value(), Contents::kNone);
}

TEST(pointer_queries_are_exact) {
  Memory memory(small_machine(), small_options());
  const Address first = memory.allocate(0, 6 * kMiB).value();
  const Address other = memory.allocate(1, 100).value();
  const PointerInfo inside = memory.query(first + 6 * kMiB - 1).value();
  CHECK_EQ(inside.base, first);
  CHECK_EQ(inside.bytes, 6 * kMiB);
  CHECK_EQ(inside.device, 0);
  CHECK_EQ(memory.query(other + 99).value().device, 1);
  CHECK_STATUS(memory.query(other + 100).status(), kInvalidPointer);
  const int of_host = 0;
  CHECK_EQ(memory.query(address_of(&of_host)).value().kind, MemoryKind::kUnregistered);
  CHECK(memory.query(first).value().number != memory.query(other).value().number);
}

TEST(wrong_frees_are_errors) {
  Memory memory(small_machine(), small_options());
  const Address address = memory.allocate(0, 5000).value();
  const Address large = memory.allocate(0, 8 * kMiB).value();
  int of_host = 0;
  CHECK_STATUS(memory.free(address + 512), kInvalidPointer);
  CHECK_STATUS(memory.free(large + kBlock), kInvalidPointer);
  CHECK_STATUS(memory.free(address_of(&of_host)), kInvalidPointer);
  CHECK_STATUS(memory.free(0), kOk);
  CHECK_STATUS(memory.free(address), kOk);
  CHECK_STATUS(memory.free(address), kInvalidPointer);
  CHECK_STATUS(memory.query(address).status(), kInvalidPointer);
  CHECK_STATUS(memory.free(large), kOk);
  CHECK_STATUS(memory.free(large), kInvalidPointer);
  CHECK_STATUS(memory.contents(large, 1).status(), kInvalidPointer);
}

TEST(wrong_devices_and_sizes_are_errors) {
  Memory memory(small_machine(), small_options());
  CHECK_STATUS(memory.allocate(2, 1).status(), kInvalidDevice);
  CHECK_STATUS(memory.allocate(-1, 1).status(), kInvalidDevice);
  CHECK_STATUS(memory.info(2).status(), kInvalidDevice);
  CHECK_STATUS(memory.open_context(2), kInvalidDevice);
  CHECK_STATUS(memory.reset(-1), kInvalidDevice);
  CHECK_EQ(memory.allocate(0, 0).value(), 0u);
  CHECK_STATUS(memory.allocate(0, ~std::uint64_t{0}).status(), kOutOfMemory);
  CHECK_STATUS(memory.allocate_pitched(0, ~std::uint64_t{0}, 2).status(), kOutOfMemory);
  CHECK_STATUS(memory.allocate_pitched(0, 0, 2).status(), kInvalidValue);
}

TEST(memory_runs_out_at_the_exact_byte) {
  Memory memory(small_machine(), small_options());
  CHECK_STATUS(memory.allocate(0, kUsable + 1).status(), kOutOfMemory);
  const Address all = memory.allocate(0, kUsable).value();
  CHECK_EQ(free_bytes(memory), 0u);
  CHECK_STATUS(memory.allocate(0, 1).status(), kOutOfMemory);
  CHECK(memory.allocate(1, 1).ok());
  CHECK_STATUS(memory.free(all), kOk);
  const Address most = memory.allocate(0, kUsable - kBlock).value();
  CHECK_STATUS(memory.allocate(0, kBlock + 1).status(), kOutOfMemory);
  CHECK(memory.allocate(0, kBlock).ok());
  CHECK_STATUS(memory.free(most), kOk);
}

TEST(small_allocations_share_blocks) {
  Memory memory(small_machine(), small_options());
  std::vector<Address> addresses;
  for (std::uint64_t i = 0; i < kBlock / 512; ++i) {
    addresses.push_back(memory.allocate(0, 500).value());
    CHECK_EQ(addresses.back() % 512, 0u);
  }
  CHECK_EQ(free_bytes(memory), kUsable - kBlock);
  addresses.push_back(memory.allocate(0, 1).value());
  CHECK_EQ(free_bytes(memory), kUsable - 2 * kBlock);
  for (const Address address : addresses) CHECK_STATUS(memory.free(address), kOk);
  CHECK_EQ(free_bytes(memory), kUsable);
}

TEST(figures_of_the_runtime_and_of_nvml_agree) {
  Memory memory(small_machine(), small_options());
  CHECK_STATUS(memory.open_context(0), kOk);
  CHECK_STATUS(memory.open_context(0), kOk);
  CHECK(memory.allocate(0, 3 * kMiB).ok());
  const MemoryInfo info = memory.info(0).value();
  CHECK_EQ(info.total_bytes, kUsable);
  CHECK_EQ(info.free_bytes, kUsable - kContext - 4 * kMiB);
  const NvmlMemoryInfo nvml = memory.nvml_info(0).value();
  CHECK_EQ(nvml.total_bytes, kUsable + kReserved);
  CHECK_EQ(nvml.reserved_bytes, kReserved);
  CHECK_EQ(nvml.used_bytes, kContext + 4 * kMiB);
  CHECK_EQ(nvml.free_bytes, info.free_bytes);
  const auto processes = memory.processes(0).value();
  REQUIRE(processes.size() == 1);
  CHECK_EQ(processes[0].pid, static_cast<std::uint32_t>(getpid()));
  CHECK_EQ(processes[0].used_bytes, nvml.used_bytes);
  CHECK(memory.processes(1).value().empty());
}

TEST(processes_share_a_device) {
  const TemporaryFolder folder;
  const std::string path = folder.file("gpu-memory");
  Memory memory(small_machine(), small_options(path));
  ChildProcess child([&path](const Pipe&, const Pipe& to_parent) {
    Memory of_child(small_machine(), small_options(path));
    CHECK_STATUS(of_child.open_context(0), kOk);
    CHECK(of_child.allocate(0, 100 * kMiB).ok());
    to_parent.send(true);
    pause();
  });
  child.receive<bool>();
  CHECK_EQ(free_bytes(memory), kUsable - kContext - 100 * kMiB);
  CHECK_STATUS(memory.allocate(0, kUsable - kContext - 100 * kMiB + 1).status(), kOutOfMemory);
  REQUIRE(memory.processes(0).value().size() == 1);
  CHECK_EQ(memory.processes(0).value()[0].pid, static_cast<std::uint32_t>(child.pid()));
  child.kill_and_reap();
  CHECK_EQ(free_bytes(memory), kUsable);
  CHECK(memory.allocate(0, kUsable).ok());
}

TEST(reset_leaves_nothing_on_the_device) {
  Memory memory(small_machine(), small_options());
  CHECK_STATUS(memory.open_context(0), kOk);
  const Address small = memory.allocate(0, 100).value();
  const Address large = memory.allocate(0, 10 * kMiB).value();
  const Address elsewhere = memory.allocate(1, 10 * kMiB).value();
  const Address pooled = memory.pools().allocate(memory.pools().current(0).value(), 100).value();
  const Address managed = memory.host().allocate_managed(0, 100, 1).value();
  int symbol = 0;
  memory.symbols().add(address_of(&symbol), "symbol", 4);
  const Address of_symbol = memory.symbols().address(address_of(&symbol), 0).value();
  CHECK_STATUS(memory.reset(0), kOk);
  CHECK_EQ(free_bytes(memory), kUsable);
  for (const Address address : {small, large, pooled, managed, of_symbol}) {
    CHECK_STATUS(memory.query(address).status(), kInvalidPointer);
  }
  CHECK(memory.query(elsewhere).ok());
  CHECK(memory.symbols().address(address_of(&symbol), 0).ok());
}

TEST(a_scope_makes_large_allocations_control_memory) {
  Memory memory(small_machine(), small_options());
  Address marked = 0;
  {
    const ControlScope scope;
    {
      const ControlScope inner;
    }
    marked = memory.allocate(0, 16 * kMiB).value();
    std::thread([&memory] {
      const Address other = memory.allocate(0, 16 * kMiB).value();
      CHECK_EQ(memory.query(other).value().residency, Residency::kCompute);
    }).join();
  }
  CHECK_EQ(memory.query(marked).value().residency, Residency::kControl);
  as<char>(marked)[16 * kMiB - 1] = 1;
  const Address unmarked = memory.allocate(0, 16 * kMiB).value();
  CHECK_EQ(memory.query(unmarked).value().residency, Residency::kCompute);
}

TEST(an_allocation_can_be_marked_until_it_is_used) {
  Memory memory(small_machine(), small_options());
  const Address address = memory.allocate(0, 16 * kMiB).value();
  CHECK_STATUS(memory.mark_control(address + 1), kInvalidPointer);
  CHECK_STATUS(memory.mark_control(address), kOk);
  CHECK_STATUS(memory.mark_control(address), kOk);
  as<char>(address)[5] = 1;
  CHECK_EQ(memory.contents(address, 16 * kMiB).value(), Contents::kReal);
  CHECK_STATUS(memory.free(address), kOk);
  CHECK_EQ(free_bytes(memory), kUsable);

  const Address used = memory.allocate(0, 16 * kMiB).value();
  CHECK(memory.copies().plan_fill(used + 100, 0, 1).ok());
  CHECK_STATUS(memory.mark_control(used), kInvalidValue);
}

TEST(freed_control_memory_reads_as_zeros_when_its_block_was_released) {
  Memory memory(small_machine(), small_options());
  const Address address = memory.allocate(0, 2 * kMiB).value();
  as<char>(address)[1000] = 1;
  CHECK_STATUS(memory.free(address), kOk);
  REQUIRE(memory.allocate(0, 2 * kMiB).value() == address);
  CHECK_EQ(as<char>(address)[1000], 0);
}

TEST(pitches_are_aligned) {
  Memory memory(small_machine(), small_options());
  const PitchedAllocation pitched = memory.allocate_pitched(0, 513, 10).value();
  CHECK_EQ(pitched.pitch_bytes, 1024u);
  CHECK_EQ(memory.query(pitched.address).value().bytes, 10240u);
}

TEST(symbols_are_control_memory_on_each_device) {
  Memory memory(small_machine(), small_options());
  int key = 0;
  const Address symbol = address_of(&key);
  CHECK_STATUS(memory.symbols().address(symbol, 0).status(), kInvalidPointer);
  memory.symbols().add(symbol, "counter", 5 * kMiB);
  const Address first = memory.symbols().address(symbol, 0).value();
  CHECK_EQ(memory.symbols().address(symbol, 0).value(), first);
  CHECK(memory.symbols().address(symbol, 1).value() != first);
  as<int>(first)[0] = 1;
  CHECK_EQ(memory.symbols().size(symbol).value(), 5 * kMiB);
  CHECK_EQ(memory.symbols().key_of("counter").value(), symbol);
  CHECK_STATUS(memory.symbols().key_of("other").status(), kInvalidPointer);
  memory.symbols().remove(symbol);
  CHECK_STATUS(memory.query(first).status(), kInvalidPointer);
  CHECK_EQ(free_bytes(memory), kUsable);
}

TEST(threads_allocate_and_ask_at_once) {
  Memory memory(small_machine(), small_options());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&memory, thread] {
      for (int round = 0; round < 200; ++round) {
        const std::uint64_t bytes = round % 5 == 0 ? 5 * kMiB : 1000;
        const Result<Address> made = memory.allocate(thread % 2, bytes);
        CHECK(made.ok());
        if (!made.ok()) return;
        const Address address = made.value();
        CHECK_EQ(memory.query(address + bytes - 1).value().base, address);
        memory.copies().plan_fill(address, 3, bytes).value().move();
        if (bytes == 1000) CHECK_EQ(as<char>(address)[bytes - 1], 3);
        CHECK_STATUS(memory.free(address), kOk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(free_bytes(memory, 0), kUsable);
  CHECK_EQ(free_bytes(memory, 1), kUsable);
}
