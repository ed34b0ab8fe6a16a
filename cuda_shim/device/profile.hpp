// The GPUs of a session, as the launcher wrote them down: a file of `key value` lines (its format
// is told in cuda_shim/catalogue/export.py), read once a process.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "timekeeper/core/types.hpp"

namespace warpserve::gpu {

// The file is not what it has to be. The message names the file, the line and what to do.
struct ProfileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What the catalogue says of a kind of GPU; the fields have the catalogue's names and meaning
// (docs/gpus.md). Rates are of dense work at the boost clock; links count one direction.
struct GpuKind {
  std::string kind;
  std::string name;
  std::string summary;
  std::string architecture;
  std::string brand;
  std::string compute_capability;
  std::uint32_t pci_device_id = 0;
  std::uint32_t pci_subsystem_id = 0;
  std::optional<std::string> board_part_number;
  std::optional<std::string> vbios_version;
  std::string driver_version;
  int cuda_driver_version = 0;

  int sm_count = 0;
  int cuda_cores_per_sm = 0;
  std::uint64_t sm_clock_max_hz = 0;
  std::uint64_t sm_clock_idle_hz = 0;
  std::uint64_t video_clock_max_hz = 0;
  std::uint64_t memory_clock_max_hz = 0;
  int memory_bus_width_bits = 0;
  std::uint64_t fp64_dense_flops = 0;
  std::optional<std::uint64_t> fp64_tensor_dense_flops;
  std::uint64_t fp32_dense_flops = 0;
  std::uint64_t tf32_dense_flops = 0;
  std::uint64_t bf16_dense_flops = 0;
  std::uint64_t fp16_dense_flops = 0;
  std::optional<std::uint64_t> fp8_dense_flops;
  std::optional<std::uint64_t> fp4_dense_flops;
  std::uint64_t int8_dense_ops = 0;

  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_usable_bytes = 0;
  std::uint64_t context_memory_bytes = 0;
  std::uint64_t allocation_granularity_bytes = 0;
  std::uint64_t bar1_total_bytes = 0;
  std::uint64_t memory_bandwidth_bytes_per_s = 0;
  std::uint64_t l2_size_bytes = 0;
  std::uint64_t l2_bandwidth_bytes_per_s = 0;
  std::uint64_t l2_persisting_max_bytes = 0;
  bool ecc_enabled = false;
  bool mig_supported = false;

  int pcie_generation = 0;
  int pcie_lanes = 0;
  bool pcie_peer_to_peer = false;
  std::uint64_t host_copy_bandwidth_bytes_per_s = 0;
  std::optional<int> nvlink_generation;
  int nvlink_link_count = 0;
  std::optional<std::uint64_t> nvlink_link_bandwidth_bytes_per_s;

  int power_limit_default_w = 0;
  int power_limit_min_w = 0;
  int power_limit_max_w = 0;
  int power_idle_w = 0;
  int temperature_idle_celsius = 0;
  int temperature_max_operating_celsius = 0;
  int temperature_slowdown_celsius = 0;
  int temperature_shutdown_celsius = 0;
};

// The CUDA majors whose cudaDeviceProp the file holds.
inline constexpr std::array kCudaMajors = {12, 13};

// One GPU in its slot.
struct DeviceProfile {
  std::string uuid;        // "GPU-…"
  std::string pci_bus_id;  // "0000:1B:00.0"
  int numa_node = 0;
  std::map<int, int> attributes;                        // by the number of CUdevice_attribute
  std::map<int, std::vector<std::uint8_t>> properties;  // cudaDeviceProp, by CUDA major
};

// The nearest way from one GPU to another; the words of `nvidia-smi topo -m`.
enum class LinkLevel { kNvlink, kPix, kNode, kSys };

struct Link {
  LinkLevel level = LinkLevel::kSys;
  int nvlink_count = 0;
  std::uint64_t bandwidth_bytes_per_s = 0;  // one direction
  bool peer_to_peer = false;
};

// What a box joins by NVLink; the words of the catalogue.
enum class Nvlink { kSwitch, kPairs, kNone };

// Devices of one kind in a box.
class Machine {
 public:
  // `source` names the text in errors. Throws ProfileError.
  static Machine parse(std::string_view text, std::string_view source);
  // Throws ProfileError where the file can't be read, too.
  static Machine read(const std::string& path);

  const GpuKind& gpu() const { return gpu_; }
  const std::string& box() const { return box_; }
  Nvlink nvlink() const { return nvlink_; }
  const std::string& nvml_version() const { return nvml_version_; }
  int nvml_architecture() const { return nvml_architecture_; }
  int nvml_brand() const { return nvml_brand_; }

  int device_count() const { return static_cast<int>(devices_.size()); }
  const DeviceProfile& device(int index) const {
    return devices_.at(static_cast<std::size_t>(index));
  }
  // From one device to another, different one.
  const Link& link(int from, int to) const { return links_.at({from, to}); }

 private:
  friend class MachineParser;

  std::string box_;
  Nvlink nvlink_ = Nvlink::kNone;
  std::string nvml_version_;
  int nvml_architecture_ = 0;
  int nvml_brand_ = 0;
  GpuKind gpu_;
  std::vector<DeviceProfile> devices_;
  std::map<std::pair<int, int>, Link> links_;
};

inline constexpr const char* kMachineFileVariable = "WARPSERVE_GPUS";

// The machine of the file that WARPSERVE_GPUS names, read at the first call. Throws ProfileError,
// each time, where the variable is not set or the file is not right.
const Machine& session_machine();

}  // namespace warpserve::gpu
