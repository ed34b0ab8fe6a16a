#include <strings.h>

#include <array>
#include <iterator>
#include <utility>

#include "cuda_shim/nvml/call.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nvml;

namespace {

constexpr std::uint32_t kMilliwattsPerWatt = 1000;
constexpr std::uint64_t kHzPerMhz = 1'000'000;
constexpr int kComputeMajor = 75;  // of CUdevice_attribute
constexpr int kComputeMinor = 76;

// nvmlMemory_t and nvmlMemory_v2_t, nvmlBAR1Memory_t, nvmlUtilization_t, nvmlProcessInfo_t.
struct MemoryV1 {
  std::uint64_t total_bytes, free_bytes, used_bytes;
};
struct MemoryV2 {
  std::uint32_t version;
  std::uint64_t total_bytes, reserved_bytes, free_bytes, used_bytes;
};
struct Bar1Memory {
  std::uint64_t total_bytes, free_bytes, used_bytes;
};
struct Utilization {
  std::uint32_t gpu_percent, memory_percent;
};
struct ProcessInfoV1 {
  std::uint32_t pid;
  std::uint64_t used_bytes;
};
struct ProcessInfoV2 {
  std::uint32_t pid;
  std::uint64_t used_bytes;
  std::uint32_t gpu_instance, compute_instance;
};
constexpr std::uint32_t kMemoryV2Version = sizeof(MemoryV2) | 2U << 24U;
constexpr std::uint32_t kNoInstance = 0xFFFFFFFF;

// nvmlIntNvLinkDeviceType_t: what is at the other end of a link.
constexpr std::uint32_t kRemoteGpu = 0;
constexpr std::uint32_t kRemoteSwitch = 2;
constexpr std::uint32_t kRemoteUnknown = 0xFF;
// nvmlNvlinkVersion_t, by the generation; source: nvml.h, and an A100's own answer of 5 (3.1) for
// the third.
constexpr std::array<std::uint32_t, 7> kNvlinkVersions = {0, 1, 2, 5, 6, 7, 8};
// A versioned structure begins with its version, whose low bytes are its size.
constexpr std::uint32_t kVersionBytesMask = 0xFFFFFF;
constexpr std::uint32_t kFabricInfoLimitBytes = 256;

enum ClockType : std::uint32_t {
  kGraphicsClock = 0,
  kSmClock = 1,
  kMemoryClock = 2,
  kVideoClock = 3
};

std::uint32_t clock_mhz(const GpuKind& gpu, std::uint32_t type) {
  require(type <= kVideoClock);
  const std::uint64_t hz = type == kMemoryClock  ? gpu.memory_clock_max_hz
                           : type == kVideoClock ? gpu.video_clock_max_hz
                                                 : gpu.sm_clock_max_hz;
  return static_cast<std::uint32_t>(hz / kHzPerMhz);
}

std::uint32_t milliwatts(int watts) {
  return static_cast<std::uint32_t>(watts) * kMilliwattsPerWatt;
}

NvmlMemoryInfo memory_info(void* device) {
  const auto info = process_memory().nvml_info(index_of(device));
  require(info.ok(), Code::kUnknown);
  return info.value();
}

// Fills at most *count; kInsufficientSize tells how many there are.
template <class Info>
void list_processes(void* device, std::uint32_t* count, void* out) {
  require(count != nullptr);
  const auto processes = process_memory().processes(index_of(device));
  require(processes.ok(), Code::kUnknown);
  const auto known = static_cast<std::uint32_t>(processes.value().size());
  const std::uint32_t room = std::exchange(*count, known);
  require(room >= known && (out != nullptr || known == 0),
          known == 0 ? Code::kSuccess : Code::kInsufficientSize);
  auto* info = static_cast<Info*>(out);
  for (const ProcessMemory& process : processes.value()) {
    Info filled{};
    filled.pid = process.pid;
    filled.used_bytes = process.used_bytes;
    if constexpr (requires { filled.gpu_instance; })
      filled.gpu_instance = filled.compute_instance = kNoInstance;
    *info++ = filled;
  }
}

enum TopologyLevel : std::uint32_t { kSingleSwitch = 10, kSameNode = 40, kSystem = 50 };

// NVLink has no level of its own there: it is told by the P2P and NVLink queries.
std::uint32_t topology_level(int first, int second) {
  switch (machine().link(first, second).level) {
    case LinkLevel::kPix:
      return kSingleSwitch;
    case LinkLevel::kNvlink:
    case LinkLevel::kNode:
      return machine().device(first).numa_node == machine().device(second).numa_node ? kSameNode
                                                                                     : kSystem;
    case LinkLevel::kSys:
      return kSystem;
  }
  return kSystem;
}

enum PeerCapability : std::uint32_t { kPeerRead, kPeerWrite, kPeerNvlink, kPeerAtomics, kPeerPcie };
enum PeerStatus : std::uint32_t { kPeerOk = 0, kPeerNotSupported = 4, kPeerUnknown = 7 };

PeerStatus peer_status(int first, int second, std::uint32_t capability) {
  require(capability <= kPeerPcie);
  if (first == second) return kPeerUnknown;
  const Link& link = machine().link(first, second);
  const bool nvlink = link.level == LinkLevel::kNvlink;
  const bool has = capability == kPeerNvlink || capability == kPeerAtomics ? nvlink
                   : capability == kPeerPcie ? link.peer_to_peer && !nvlink
                                             : link.peer_to_peer;
  return has ? kPeerOk : kPeerNotSupported;
}

void require_link(void* device, std::uint32_t link) {
  require(link < static_cast<std::uint32_t>(kind_of(device).nvlink_link_count));
}

// Links to switches are up whoever else is there; a bridge needs both of its GPUs.
bool is_link_active(void* device) {
  if (machine().nvlink() == Nvlink::kSwitch) return true;
  const int index = index_of(device);
  for (int other = 0; other < machine().device_count(); ++other) {
    if (other != index && machine().link(index, other).level == LinkLevel::kNvlink) return true;
  }
  return false;
}

std::uint32_t remote_type(void* device) {
  if (!is_link_active(device)) return kRemoteUnknown;
  return machine().nvlink() == Nvlink::kSwitch ? kRemoteSwitch : kRemoteGpu;
}

void find_by_pci_bus_id(const char* id, void** device) {
  require(id != nullptr && device != nullptr);
  for (int i = 0; i < machine().device_count(); ++i) {
    const PciInfo info = pci_info(i);
    if (strcasecmp(info.legacy_bus_id, id) == 0 || strcasecmp(info.bus_id, id) == 0) {
      *device = handle_of(i);
      return;
    }
  }
  throw Failure{Code::kNotFound};
}

}  // namespace

std::uint32_t nvmlDeviceGetCount(std::uint32_t* count) {
  return call([&] { answer(count, static_cast<std::uint32_t>(machine().device_count())); });
}

std::uint32_t nvmlDeviceGetHandleByIndex(std::uint32_t index, void** device) {
  return call([&] { answer(device, handle_of(static_cast<int>(index))); });
}

std::uint32_t nvmlDeviceGetHandleByPciBusId(const char* id, void** device) {
  return call([&] { find_by_pci_bus_id(id, device); });
}

std::uint32_t nvmlDeviceGetCount_v2(std::uint32_t* count) {
  return call([&] { answer(count, static_cast<std::uint32_t>(machine().device_count())); });
}

std::uint32_t nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, void** device) {
  return call([&] { answer(device, handle_of(static_cast<int>(index))); });
}

std::uint32_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  return call([&] { find_by_pci_bus_id(id, device); });
}

std::uint32_t nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  return call([&] {
    require(uuid != nullptr && device != nullptr);
    for (int i = 0; i < machine().device_count(); ++i) {
      if (machine().device(i).uuid == uuid) return answer(device, handle_of(i));
    }
    throw Failure{Code::kNotFound};
  });
}

std::uint32_t nvmlDeviceGetIndex(void* device, std::uint32_t* index) {
  return call([&] { answer(index, static_cast<std::uint32_t>(index_of(device))); });
}

std::uint32_t nvmlDeviceGetMinorNumber(void* device, std::uint32_t* minor) {
  return call([&] { answer(minor, static_cast<std::uint32_t>(index_of(device))); });
}

std::uint32_t nvmlDeviceGetName(void* device, char* name, std::uint32_t capacity) {
  return call([&] { nvml::copy_text(name, capacity, kind_of(device).name); });
}

std::uint32_t nvmlDeviceGetUUID(void* device, char* uuid, std::uint32_t capacity) {
  return call([&] { nvml::copy_text(uuid, capacity, profile_of(device).uuid); });
}

std::uint32_t nvmlDeviceGetVbiosVersion(void* device, char* version, std::uint32_t capacity) {
  return call([&] {
    const auto& known = kind_of(device).vbios_version;
    require(known.has_value(), Code::kNotSupported);
    nvml::copy_text(version, capacity, *known);
  });
}

std::uint32_t nvmlDeviceGetBoardPartNumber(void* device, char* number, std::uint32_t capacity) {
  return call([&] {
    const auto& known = kind_of(device).board_part_number;
    require(known.has_value(), Code::kNotSupported);
    nvml::copy_text(number, capacity, *known);
  });
}

std::uint32_t nvmlDeviceGetPciInfo(void* device, void* info) {
  return call([&] {
    require(info != nullptr);
    *static_cast<PciInfo*>(info) = pci_info(index_of(device));
  });
}

std::uint32_t nvmlDeviceGetPciInfo_v2(void* device, void* info) {
  return call([&] {
    require(info != nullptr);
    *static_cast<PciInfo*>(info) = pci_info(index_of(device));
  });
}

std::uint32_t nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  return call([&] {
    require(info != nullptr);
    *static_cast<PciInfo*>(info) = pci_info(index_of(device));
  });
}

std::uint32_t nvmlDeviceGetBrand(void* device, std::uint32_t* brand) {
  return call([&] {
    index_of(device);
    answer(brand, static_cast<std::uint32_t>(machine().nvml_brand()));
  });
}

std::uint32_t nvmlDeviceGetArchitecture(void* device, std::uint32_t* architecture) {
  return call([&] {
    index_of(device);
    answer(architecture, static_cast<std::uint32_t>(machine().nvml_architecture()));
  });
}

std::uint32_t nvmlDeviceGetCudaComputeCapability(void* device, std::int32_t* major,
                                                 std::int32_t* minor) {
  return call([&] {
    const auto& attributes = profile_of(device).attributes;
    answer(major, attributes.at(kComputeMajor));
    answer(minor, attributes.at(kComputeMinor));
  });
}

std::uint32_t nvmlDeviceGetNumGpuCores(void* device, std::uint32_t* cores) {
  return call([&] {
    const GpuKind& gpu = kind_of(device);
    answer(cores, static_cast<std::uint32_t>(gpu.sm_count * gpu.cuda_cores_per_sm));
  });
}

std::uint32_t nvmlDeviceGetMemoryBusWidth(void* device, std::uint32_t* bits) {
  return call(
      [&] { answer(bits, static_cast<std::uint32_t>(kind_of(device).memory_bus_width_bits)); });
}

std::uint32_t nvmlDeviceGetMemoryInfo(void* device, void* out) {
  return call([&] {
    require(out != nullptr);
    const NvmlMemoryInfo info = memory_info(device);
    *static_cast<MemoryV1*>(out) = {info.total_bytes, info.free_bytes,
                                    info.used_bytes + info.reserved_bytes};
  });
}

std::uint32_t nvmlDeviceGetMemoryInfo_v2(void* device, void* out) {
  return call([&] {
    require(out != nullptr && static_cast<MemoryV2*>(out)->version == kMemoryV2Version);
    const NvmlMemoryInfo info = memory_info(device);
    *static_cast<MemoryV2*>(out) = {kMemoryV2Version, info.total_bytes, info.reserved_bytes,
                                    info.free_bytes, info.used_bytes};
  });
}

std::uint32_t nvmlDeviceGetBAR1MemoryInfo(void* device, void* out) {
  return call([&] {
    require(out != nullptr);
    const std::uint64_t total_bytes = kind_of(device).bar1_total_bytes;
    *static_cast<Bar1Memory*>(out) = {total_bytes, total_bytes, 0};
  });
}

// How busy a GPU is between two instants depends on the work that patches enqueue; it is told as
// idle.
std::uint32_t nvmlDeviceGetUtilizationRates(void* device, void* out) {
  return call([&] {
    index_of(device);
    require(out != nullptr);
    *static_cast<Utilization*>(out) = {};
  });
}

std::uint32_t nvmlDeviceGetClockInfo(void* device, std::uint32_t type, std::uint32_t* mhz) {
  return call([&] { answer(mhz, clock_mhz(kind_of(device), type)); });
}

std::uint32_t nvmlDeviceGetMaxClockInfo(void* device, std::uint32_t type, std::uint32_t* mhz) {
  return call([&] { answer(mhz, clock_mhz(kind_of(device), type)); });
}

std::uint32_t nvmlDeviceGetApplicationsClock(void* device, std::uint32_t type, std::uint32_t* mhz) {
  return call([&] { answer(mhz, clock_mhz(kind_of(device), type)); });
}

std::uint32_t nvmlDeviceGetClock(void* device, std::uint32_t type, std::uint32_t,
                                 std::uint32_t* mhz) {
  return call([&] { answer(mhz, clock_mhz(kind_of(device), type)); });
}

std::uint32_t nvmlDeviceGetPowerUsage(void* device, std::uint32_t* milliwatts_out) {
  return call([&] { answer(milliwatts_out, milliwatts(kind_of(device).power_idle_w)); });
}

std::uint32_t nvmlDeviceGetPowerManagementLimit(void* device, std::uint32_t* limit) {
  return call([&] { answer(limit, milliwatts(kind_of(device).power_limit_default_w)); });
}

std::uint32_t nvmlDeviceGetPowerManagementDefaultLimit(void* device, std::uint32_t* limit) {
  return call([&] { answer(limit, milliwatts(kind_of(device).power_limit_default_w)); });
}

std::uint32_t nvmlDeviceGetEnforcedPowerLimit(void* device, std::uint32_t* limit) {
  return call([&] { answer(limit, milliwatts(kind_of(device).power_limit_default_w)); });
}

std::uint32_t nvmlDeviceGetPowerManagementLimitConstraints(void* device, std::uint32_t* least,
                                                           std::uint32_t* greatest) {
  return call([&] {
    answer(least, milliwatts(kind_of(device).power_limit_min_w));
    answer(greatest, milliwatts(kind_of(device).power_limit_max_w));
  });
}

std::uint32_t nvmlDeviceGetTemperature(void* device, std::uint32_t sensor, std::uint32_t* celsius) {
  return call([&] {
    require(sensor == 0);
    answer(celsius, static_cast<std::uint32_t>(kind_of(device).temperature_idle_celsius));
  });
}

std::uint32_t nvmlDeviceGetTemperatureThreshold(void* device, std::uint32_t type,
                                                std::uint32_t* celsius) {
  return call([&] {
    const GpuKind& gpu = kind_of(device);
    const int known[] = {gpu.temperature_shutdown_celsius, gpu.temperature_slowdown_celsius,
                         gpu.temperature_max_operating_celsius,
                         gpu.temperature_max_operating_celsius};
    require(type < std::size(known), Code::kNotSupported);
    answer(celsius, static_cast<std::uint32_t>(known[type]));
  });
}

std::uint32_t nvmlDeviceGetComputeRunningProcesses(void* device, std::uint32_t* count, void* out) {
  return call([&] { list_processes<ProcessInfoV1>(device, count, out); });
}

std::uint32_t nvmlDeviceGetGraphicsRunningProcesses(void* device, std::uint32_t* count, void*) {
  return call([&] {
    index_of(device);
    answer(count, 0U);
  });
}

std::uint32_t nvmlDeviceGetComputeRunningProcesses_v2(void* device, std::uint32_t* count,
                                                      void* out) {
  return call([&] { list_processes<ProcessInfoV2>(device, count, out); });
}

std::uint32_t nvmlDeviceGetGraphicsRunningProcesses_v2(void* device, std::uint32_t* count, void*) {
  return call([&] {
    index_of(device);
    answer(count, 0U);
  });
}

std::uint32_t nvmlDeviceGetComputeRunningProcesses_v3(void* device, std::uint32_t* count,
                                                      void* out) {
  return call([&] { list_processes<ProcessInfoV2>(device, count, out); });
}

std::uint32_t nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, std::uint32_t* count, void*) {
  return call([&] {
    index_of(device);
    answer(count, 0U);
  });
}

std::uint32_t nvmlDeviceGetTopologyCommonAncestor(void* first, void* second, std::uint32_t* level) {
  return call([&] {
    const int from = index_of(first);
    const int to = index_of(second);
    answer(level, from == to ? 0U : topology_level(from, to));
  });
}

std::uint32_t nvmlDeviceGetP2PStatus(void* first, void* second, std::uint32_t capability,
                                     std::uint32_t* status) {
  return call([&] {
    answer(status,
           static_cast<std::uint32_t>(peer_status(index_of(first), index_of(second), capability)));
  });
}

std::uint32_t nvmlDeviceGetNvLinkState(void* device, std::uint32_t link, std::uint32_t* active) {
  return call([&] {
    require_link(device, link);
    answer(active, is_link_active(device) ? 1U : 0U);
  });
}

std::uint32_t nvmlDeviceGetNvLinkVersion(void* device, std::uint32_t link, std::uint32_t* version) {
  return call([&] {
    require_link(device, link);
    const auto generation = static_cast<std::size_t>(kind_of(device).nvlink_generation.value_or(0));
    require(generation < kNvlinkVersions.size(), Code::kNotSupported);
    answer(version, kNvlinkVersions[generation]);
  });
}

std::uint32_t nvmlDeviceGetNvLinkCapability(void* device, std::uint32_t link,
                                            std::uint32_t capability, std::uint32_t* answer_out) {
  return call([&] {
    require_link(device, link);
    require(capability <= 5);
    answer(answer_out, is_link_active(device) ? 1U : 0U);
  });
}

std::uint32_t nvmlDeviceGetMaxPcieLinkGeneration(void* device, std::uint32_t* generation) {
  return call(
      [&] { answer(generation, static_cast<std::uint32_t>(kind_of(device).pcie_generation)); });
}

std::uint32_t nvmlDeviceGetCurrPcieLinkGeneration(void* device, std::uint32_t* generation) {
  return call(
      [&] { answer(generation, static_cast<std::uint32_t>(kind_of(device).pcie_generation)); });
}

std::uint32_t nvmlDeviceGetGpuMaxPcieLinkGeneration(void* device, std::uint32_t* generation) {
  return call(
      [&] { answer(generation, static_cast<std::uint32_t>(kind_of(device).pcie_generation)); });
}

std::uint32_t nvmlDeviceGetMaxPcieLinkWidth(void* device, std::uint32_t* lanes) {
  return call([&] { answer(lanes, static_cast<std::uint32_t>(kind_of(device).pcie_lanes)); });
}

std::uint32_t nvmlDeviceGetCurrPcieLinkWidth(void* device, std::uint32_t* lanes) {
  return call([&] { answer(lanes, static_cast<std::uint32_t>(kind_of(device).pcie_lanes)); });
}

std::uint32_t nvmlDeviceGetPersistenceMode(void* device, std::uint32_t* mode) {
  return call([&] {
    index_of(device);
    answer(mode, 1U);
  });
}

std::uint32_t nvmlDeviceGetComputeMode(void* device, std::uint32_t* mode) {
  return call([&] {
    index_of(device);
    answer(mode, 0U);
  });
}

std::uint32_t nvmlDeviceGetPerformanceState(void* device, std::uint32_t* state) {
  return call([&] {
    index_of(device);
    answer(state, 0U);
  });
}

std::uint32_t nvmlDeviceGetMigMode(void* device, std::uint32_t* current, std::uint32_t* pending) {
  return call([&] {
    require(kind_of(device).mig_supported, Code::kNotSupported);
    answer(current, 0U);
    answer(pending, 0U);
  });
}

std::uint32_t nvmlDeviceGetEccMode(void* device, std::uint32_t* current, std::uint32_t* pending) {
  return call([&] {
    const std::uint32_t mode = kind_of(device).ecc_enabled ? 1 : 0;
    answer(current, mode);
    answer(pending, mode);
  });
}

std::uint32_t nvmlDeviceGetCurrentClocksEventReasons(void* device, std::uint64_t* reasons) {
  return call([&] {
    index_of(device);
    answer(reasons, std::uint64_t{0});
  });
}

std::uint32_t nvmlDeviceGetCurrentClocksThrottleReasons(void* device, std::uint64_t* reasons) {
  return call([&] {
    index_of(device);
    answer(reasons, std::uint64_t{0});
  });
}

std::uint32_t nvmlDeviceGetNumaNodeId(void* device, std::uint32_t* node) {
  return call(
      [&] { answer(node, static_cast<std::uint32_t>(std::max(0, profile_of(device).numa_node))); });
}

std::uint32_t nvmlDeviceIsMigDeviceHandle(void* device, std::uint32_t* answer_out) {
  return call([&] {
    index_of(device);
    answer(answer_out, 0U);
  });
}

std::uint32_t nvmlDeviceGetNvLinkRemoteDeviceType(void* device, std::uint32_t link,
                                                  std::uint32_t* type) {
  return call([&] {
    require_link(device, link);
    answer(type, remote_type(device));
  });
}

// The switches of a box are not in the catalogue.
std::uint32_t nvmlDeviceGetNvLinkRemotePciInfo(void* device, std::uint32_t link, void*) {
  return call([&] {
    require_link(device, link);
    throw Failure{Code::kNotSupported};
  });
}

std::uint32_t nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, std::uint32_t link, void*) {
  return call([&] {
    require_link(device, link);
    throw Failure{Code::kNotSupported};
  });
}

// No fabric manager: state 0, not supported.
std::uint32_t nvmlDeviceGetGpuFabricInfoV(void* device, void* info) {
  return call([&] {
    index_of(device);
    require(info != nullptr);
    const std::uint32_t version = *static_cast<std::uint32_t*>(info);
    const std::uint32_t bytes = version & kVersionBytesMask;
    require(bytes >= sizeof(version) && bytes <= kFabricInfoLimitBytes);
    std::memset(static_cast<char*>(info) + sizeof(version), 0, bytes - sizeof(version));
  });
}
