// Small GPUs with round numbers, and shorthands.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "cuda_shim/memory/memory.hpp"
#include "tests/native/check.hpp"
#include "tests/native/gpu_time/fixture.hpp"

namespace warpserve::gpu {

inline constexpr std::uint64_t kBlock = 2 * kMiB;
inline constexpr std::uint64_t kUsable = 256 * kMiB;
inline constexpr std::uint64_t kReserved = 4 * kMiB;
inline constexpr std::uint64_t kContext = 8 * kMiB;

inline void set_field(std::string& text, const std::string& field, std::uint64_t value) {
  const std::size_t from = text.find("gpu." + field + " ");
  const std::size_t to = text.find('\n', from);
  text.replace(from, to - from, "gpu." + field + " " + std::to_string(value));
}

// A machine of gpu_time's test GPUs with that much memory.
inline Machine machine_with(int devices, std::uint64_t usable_bytes) {
  std::string text = machine_text();
  set_field(text, "memory_usable_bytes", usable_bytes);
  set_field(text, "memory_total_bytes", usable_bytes + kReserved);
  set_field(text, "context_memory_bytes", kContext);
  set_field(text, "allocation_granularity_bytes", kBlock);
  const std::string_view count = "device_count 2";
  text.replace(text.find(count), count.size(), "device_count " + std::to_string(devices));
  for (int i = 2; i < devices; ++i) {
    const std::string device = "device." + std::to_string(i) + ".";
    for (const char* line : {"uuid GPU-0", "pci_bus_id 0000:1B:00.0", "numa_node 0",
                             "attribute.1 1024", "properties.12 4e56", "properties.13 4e5649"}) {
      text += device + line + "\n";
    }
    for (int other = 0; other < i; ++other) {
      const std::string here = std::to_string(i);
      const std::string there = std::to_string(other);
      text += "link." + here + "." + there + " SYS 0 500000000 1\n";
      text += "link." + there + "." + here + " SYS 0 500000000 1\n";
    }
  }
  return Machine::parse(text, "test");
}

inline const Machine& small_machine() {
  static const Machine machine = machine_with(2, kUsable);
  return machine;
}

inline MemoryOptions small_options(std::string account_path = {}) {
  return {
      .host_memory_bytes = 64 * kMiB, .arena_bytes = kGiB, .account_path = std::move(account_path)};
}

inline std::uint64_t free_bytes(const Memory& memory, int device = 0) {
  return memory.info(device).value().free_bytes;
}

template <class T>
T* as(Address address) {
  return static_cast<T*>(pointer(address));
}

}  // namespace warpserve::gpu

#define CHECK_STATUS(operation, expected) \
  CHECK_EQ(operation, ::warpserve::gpu::MemoryStatus::expected)
