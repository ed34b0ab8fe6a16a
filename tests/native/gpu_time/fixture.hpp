// A machine with round numbers, and shorthands.
#pragma once

#include <cstdint>
#include <string>

#include "cuda_shim/device/profile.hpp"
#include "cuda_shim/time/context.hpp"
#include "tests/native/check.hpp"
#include "tests/native/gpu_time/fake_clock.hpp"

namespace warpserve::gpu {

// Two devices. Between host and device a byte takes 1 ns, within the device 1 ns (it is read and
// written), over the link 2 ns.
inline std::string machine_text() {
  std::string text =
      "format 1\n"
      "device_count 2\n"
      "box test-box\n"
      "nvlink none\n"
      "nvml_version 13.580.105.08\n"
      "nvml_architecture 9\n"
      "nvml_brand 14\n";
  for (const char* line : {"kind test",
                           "name Test GPU",
                           "summary a GPU with round numbers",
                           "architecture hopper",
                           "brand nvidia",
                           "compute_capability 9.0",
                           "pci_device_id 1",
                           "pci_subsystem_id 1",
                           "driver_version 580.105.08",
                           "cuda_driver_version 13000",
                           "sm_count 10",
                           "cuda_cores_per_sm 128",
                           "sm_clock_max_hz 1",
                           "sm_clock_idle_hz 1",
                           "video_clock_max_hz 1",
                           "memory_clock_max_hz 1",
                           "memory_bus_width_bits 512",
                           "fp64_dense_flops 1",
                           "fp32_dense_flops 1",
                           "tf32_dense_flops 1",
                           "bf16_dense_flops 1",
                           "fp16_dense_flops 1",
                           "int8_dense_ops 1",
                           "memory_total_bytes 1000",
                           "memory_usable_bytes 900",
                           "context_memory_bytes 10",
                           "allocation_granularity_bytes 2",
                           "bar1_total_bytes 1",
                           "memory_bandwidth_bytes_per_s 2000000000",
                           "l2_size_bytes 1",
                           "l2_bandwidth_bytes_per_s 1",
                           "l2_persisting_max_bytes 1",
                           "ecc_enabled 1",
                           "mig_supported 0",
                           "pcie_generation 5",
                           "pcie_lanes 16",
                           "pcie_peer_to_peer 1",
                           "host_copy_bandwidth_bytes_per_s 1000000000",
                           "nvlink_link_count 0",
                           "power_limit_default_w 1",
                           "power_limit_min_w 1",
                           "power_limit_max_w 1",
                           "power_idle_w 1",
                           "temperature_idle_celsius 1",
                           "temperature_max_operating_celsius 1",
                           "temperature_slowdown_celsius 1",
                           "temperature_shutdown_celsius 1"}) {
    text += std::string("gpu.") + line + "\n";
  }
  for (const char* device : {"device.0.", "device.1."}) {
    for (const char* line : {"uuid GPU-0", "pci_bus_id 0000:1B:00.0", "numa_node 0",
                             "attribute.1 1024", "properties.12 4e56", "properties.13 4e5649"}) {
      text += std::string(device) + line + "\n";
    }
  }
  return text + "link.0.1 SYS 0 500000000 1\nlink.1.0 SYS 0 500000000 1\n";
}

inline const Machine& test_machine() {
  static const Machine machine = Machine::parse(machine_text(), "test");
  return machine;
}

inline VirtualDuration ns(std::int64_t count) {
  return VirtualDuration::from_ns(count);
}
inline VirtualTime at(std::int64_t count) {
  return VirtualTime::from_ns(count);
}

// A context under a clock of the test's choice, and streams that do not join with the legacy one.
template <class Clock>
struct Fixture {
  Clock clock;
  Context context{test_machine(), 0, clock};

  std::shared_ptr<Stream> stream() { return context.create_stream({.blocking = false}); }
  std::shared_ptr<Event> event() { return context.create_event(); }
};

}  // namespace warpserve::gpu

#define CHECK_OK(operation) CHECK_EQ(operation, ::warpserve::gpu::Status::kOk)
