#include "cuda_shim/memory/ipc.hpp"

#include "tests/native/gpu_memory/child_process.hpp"
#include "tests/native/gpu_memory/fixture.hpp"
#include "tests/native/gpu_memory/temporary_folder.hpp"

using namespace warpserve::gpu;

TEST(processes_share_the_bytes_of_control_memory) {
  const TemporaryFolder folder;
  const std::string path = folder.file("gpu-memory");
  ChildProcess maker([&path](const Pipe& from_parent, const Pipe& to_parent) {
    Memory memory(small_machine(), small_options(path));
    const Address before = memory.allocate(0, 3000).value();
    const Address address = memory.allocate(0, 3000).value();
    as<int>(before)[0] = 1;
    as<int>(address)[10] = 42;
    to_parent.send(memory.ipc().get_handle(address + 100).value());
    from_parent.receive<bool>();
    CHECK_EQ(as<int>(address)[11], 43);
    as<int>(address)[12] = 44;
    to_parent.send(true);
    from_parent.receive<bool>();
    CHECK_STATUS(memory.free(address), kOk);
    to_parent.send(true);
    from_parent.receive<bool>();
  });
  Memory memory(small_machine(), small_options(path));
  const auto handle = maker.receive<IpcHandle>();
  const Address address = memory.ipc().open(handle).value();
  CHECK_EQ(as<int>(address)[10], 42);
  as<int>(address)[11] = 43;
  maker.send(true);
  maker.receive<bool>();
  CHECK_EQ(as<int>(address)[12], 44);

  const PointerInfo info = memory.query(address + 2999).value();
  CHECK_EQ(info.kind, MemoryKind::kImported);
  CHECK_EQ(info.bytes, 3000u);
  CHECK_STATUS(memory.query(address + 3000).status(), kInvalidPointer);
  CHECK_EQ(free_bytes(memory), kUsable - kBlock);
  CHECK_STATUS(memory.free(address), kInvalidPointer);

  CHECK_EQ(memory.ipc().open(handle).value(), address);
  CHECK_STATUS(memory.ipc().close(address), kOk);
  CHECK_EQ(as<int>(address)[12], 44);
  CHECK_STATUS(memory.ipc().close(address), kOk);
  CHECK_STATUS(memory.ipc().close(address), kInvalidPointer);
  CHECK_STATUS(memory.query(address).status(), kInvalidPointer);

  maker.send(true);
  maker.receive<bool>();
  CHECK_STATUS(memory.ipc().open(handle).status(), kInvalidHandle);
  maker.send(true);
  CHECK_EQ(maker.wait(), 0);
}

TEST(compute_memory_is_opened_without_bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("gpu-memory");
  ChildProcess maker([&path](const Pipe& from_parent, const Pipe& to_parent) {
    Memory memory(small_machine(), small_options(path));
    to_parent.send(memory.ipc().get_handle(memory.allocate(1, 10 * kMiB).value()).value());
    from_parent.receive<bool>();
  });
  Memory memory(small_machine(), small_options(path));
  const auto handle = maker.receive<IpcHandle>();
  const Address address = memory.ipc().open(handle).value();
  const PointerInfo info = memory.query(address).value();
  CHECK_EQ(info.residency, Residency::kCompute);
  CHECK_EQ(info.device, 1);
  CHECK_EQ(info.bytes, 10 * kMiB);
  CHECK_STATUS(memory.reset(1), kOk);
  CHECK_STATUS(memory.query(address).status(), kInvalidPointer);
  maker.send(true);
  CHECK_EQ(maker.wait(), 0);
  CHECK_STATUS(memory.ipc().open(handle).status(), kInvalidHandle);
}

TEST(what_is_open_outlives_a_maker_that_is_killed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("gpu-memory");
  ChildProcess maker([&path](const Pipe&, const Pipe& to_parent) {
    Memory memory(small_machine(), small_options(path));
    const ControlScope scope;
    const Address address = memory.allocate(0, 10 * kMiB).value();
    as<int>(address)[1'000'000] = 42;
    to_parent.send(memory.ipc().get_handle(address).value());
    pause();
  });
  Memory memory(small_machine(), small_options(path));
  const auto handle = maker.receive<IpcHandle>();
  const Address address = memory.ipc().open(handle).value();
  maker.kill_and_reap();
  CHECK_EQ(as<int>(address)[1'000'000], 42);
  CHECK_STATUS(memory.ipc().open(handle).status(), kInvalidHandle);
  CHECK_EQ(free_bytes(memory), kUsable);
  CHECK_STATUS(memory.ipc().close(address), kOk);
}

TEST(wrong_handles_are_errors) {
  Memory memory(small_machine(), small_options());
  const Address address = memory.allocate(0, 100).value();
  const Address pooled = memory.pools().allocate(memory.pools().current(0).value(), 100).value();
  CHECK_STATUS(memory.ipc().open(memory.ipc().get_handle(address).value()).status(), kSameProcess);
  CHECK_STATUS(memory.ipc().open(IpcHandle{}).status(), kInvalidHandle);
  CHECK_STATUS(memory.ipc().get_handle(pooled).status(), kInvalidPointer);
  CHECK_STATUS(memory.ipc().get_handle(0).status(), kInvalidPointer);
  CHECK_STATUS(memory.ipc().close(address), kInvalidPointer);
}
