#include "cuda_shim/device/profile.hpp"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <type_traits>
#include <utility>

namespace warpserve::gpu {
namespace {

constexpr int kFormat = 1;

// "a b" at the first blank: {"a", "b"}.
std::pair<std::string_view, std::string_view> split(std::string_view text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return {text, {}};
  return {text.substr(0, blank), text.substr(blank + 1)};
}

template <class Integer>
std::optional<Integer> number(std::string_view text) {
  Integer value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::optional<std::vector<std::uint8_t>> bytes_of_hex(std::string_view text) {
  if (text.empty() || text.size() % 2 != 0) return std::nullopt;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    std::uint8_t byte = 0;
    const char* const end = text.data() + i + 2;
    const auto [rest, error] = std::from_chars(text.data() + i, end, byte, 16);
    if (error != std::errc() || rest != end) return std::nullopt;
    bytes.push_back(byte);
  }
  return bytes;
}

std::optional<LinkLevel> link_level(std::string_view text) {
  if (text == "NV") return LinkLevel::kNvlink;
  if (text == "PIX") return LinkLevel::kPix;
  if (text == "NODE") return LinkLevel::kNode;
  if (text == "SYS") return LinkLevel::kSys;
  return std::nullopt;
}

}  // namespace

// Takes every line of the text exactly once: what is left at the end is unknown.
class MachineParser {
 public:
  MachineParser(std::string_view text, std::string_view source) : source_(source) {
    int number = 0;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      add_line(text.substr(0, end), ++number);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    }
  }

  Machine parse() {
    if (take<int>("format") != kFormat) {
      fail("has another format than " + std::to_string(kFormat));
    }
    Machine machine;
    const int devices = take<int>("device_count");
    if (devices < 1) fail("describes no device");
    machine.box_ = take<std::string>("box");
    machine.nvlink_ = take_nvlink();
    machine.nvml_version_ = take<std::string>("nvml_version");
    machine.nvml_architecture_ = take<int>("nvml_architecture");
    machine.nvml_brand_ = take<int>("nvml_brand");
    machine.gpu_ = take_gpu();
    for (int i = 0; i < devices; ++i) machine.devices_.push_back(take_device(i));
    for (int from = 0; from < devices; ++from) {
      for (int to = 0; to < devices; ++to) {
        if (from != to) machine.links_[{from, to}] = take_link(from, to);
      }
    }
    if (!lines_.empty())
      fail(lines_.begin()->second, "has the unknown key '" + lines_.begin()->first + "'");
    return machine;
  }

 private:
  struct Line {
    std::string_view value;
    int number = 0;
  };

  void add_line(std::string_view text, int number) {
    const auto [key, value] = split(text);
    const Line line = {value, number};
    if (key.empty() || value.empty()) fail(line, "is not 'key value'");
    if (!lines_.emplace(key, line).second) fail(line, "repeats the key '" + std::string(key) + "'");
  }

  std::optional<Line> find_and_remove(const std::string& key) {
    const auto node = lines_.extract(key);
    if (node.empty()) return std::nullopt;
    return node.mapped();
  }

  template <class T>
  std::optional<T> take_optional(const std::string& key) {
    const std::optional<Line> line = find_and_remove(key);
    if (!line) return std::nullopt;
    return convert<T>(key, *line);
  }

  template <class T>
  T take(const std::string& key) {
    std::optional<T> value = take_optional<T>(key);
    if (!value) fail("lacks the key '" + key + "'");
    return std::move(*value);
  }

  // Of `gpu.` keys: required where the field is not an optional.
  template <class T>
  void take_field(const char* name, T& field) {
    field = take<T>(std::string("gpu.") + name);
  }
  template <class T>
  void take_field(const char* name, std::optional<T>& field) {
    field = take_optional<T>(std::string("gpu.") + name);
  }

  template <class T>
  T convert(const std::string& key, const Line& line) {
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string(line.value);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (line.value != "0" && line.value != "1") fail_value(key, line, "0 or 1");
      return line.value == "1";
    } else {
      const std::optional<T> value = number<T>(line.value);
      if (!value) fail_value(key, line, "a whole number in the field's range");
      return *value;
    }
  }

  Nvlink take_nvlink();
  GpuKind take_gpu();
  DeviceProfile take_device(int index);
  Link take_link(int from, int to);

  [[noreturn]] void fail(const std::string& what) const {
    throw ProfileError(source_ + " " + what +
                       ". It is written by `warpserve run`; both must be of one version.");
  }
  [[noreturn]] void fail(const Line& line, const std::string& what) const {
    fail(": line " + std::to_string(line.number) + " " + what);
  }
  [[noreturn]] void fail_value(const std::string& key, const Line& line,
                               const char* expected) const {
    fail(line, "gives " + key + " the value '" + std::string(line.value.substr(0, 60)) +
                   "', which is not " + expected);
  }

  const std::string source_;
  std::map<std::string, Line> lines_;
};

Nvlink MachineParser::take_nvlink() {
  const std::string key = "nvlink";
  const std::optional<Line> line = find_and_remove(key);
  if (!line) fail("lacks the key '" + key + "'");
  if (line->value == "switch") return Nvlink::kSwitch;
  if (line->value == "pairs") return Nvlink::kPairs;
  if (line->value == "none") return Nvlink::kNone;
  fail_value(key, *line, "'switch', 'pairs' or 'none'");
}

GpuKind MachineParser::take_gpu() {
  GpuKind gpu;
  take_field("kind", gpu.kind);
  take_field("name", gpu.name);
  take_field("summary", gpu.summary);
  take_field("architecture", gpu.architecture);
  take_field("brand", gpu.brand);
  take_field("compute_capability", gpu.compute_capability);
  take_field("pci_device_id", gpu.pci_device_id);
  take_field("pci_subsystem_id", gpu.pci_subsystem_id);
  take_field("board_part_number", gpu.board_part_number);
  take_field("vbios_version", gpu.vbios_version);
  take_field("driver_version", gpu.driver_version);
  take_field("cuda_driver_version", gpu.cuda_driver_version);
  take_field("sm_count", gpu.sm_count);
  take_field("cuda_cores_per_sm", gpu.cuda_cores_per_sm);
  take_field("sm_clock_max_hz", gpu.sm_clock_max_hz);
  take_field("sm_clock_idle_hz", gpu.sm_clock_idle_hz);
  take_field("video_clock_max_hz", gpu.video_clock_max_hz);
  take_field("memory_clock_max_hz", gpu.memory_clock_max_hz);
  take_field("memory_bus_width_bits", gpu.memory_bus_width_bits);
  take_field("fp64_dense_flops", gpu.fp64_dense_flops);
  take_field("fp64_tensor_dense_flops", gpu.fp64_tensor_dense_flops);
  take_field("fp32_dense_flops", gpu.fp32_dense_flops);
  take_field("tf32_dense_flops", gpu.tf32_dense_flops);
  take_field("bf16_dense_flops", gpu.bf16_dense_flops);
  take_field("fp16_dense_flops", gpu.fp16_dense_flops);
  take_field("fp8_dense_flops", gpu.fp8_dense_flops);
  take_field("fp4_dense_flops", gpu.fp4_dense_flops);
  take_field("int8_dense_ops", gpu.int8_dense_ops);
  take_field("memory_total_bytes", gpu.memory_total_bytes);
  take_field("memory_usable_bytes", gpu.memory_usable_bytes);
  take_field("context_memory_bytes", gpu.context_memory_bytes);
  take_field("allocation_granularity_bytes", gpu.allocation_granularity_bytes);
  take_field("bar1_total_bytes", gpu.bar1_total_bytes);
  take_field("memory_bandwidth_bytes_per_s", gpu.memory_bandwidth_bytes_per_s);
  take_field("l2_size_bytes", gpu.l2_size_bytes);
  take_field("l2_bandwidth_bytes_per_s", gpu.l2_bandwidth_bytes_per_s);
  take_field("l2_persisting_max_bytes", gpu.l2_persisting_max_bytes);
  take_field("ecc_enabled", gpu.ecc_enabled);
  take_field("mig_supported", gpu.mig_supported);
  take_field("pcie_generation", gpu.pcie_generation);
  take_field("pcie_lanes", gpu.pcie_lanes);
  take_field("pcie_peer_to_peer", gpu.pcie_peer_to_peer);
  take_field("host_copy_bandwidth_bytes_per_s", gpu.host_copy_bandwidth_bytes_per_s);
  take_field("nvlink_generation", gpu.nvlink_generation);
  take_field("nvlink_link_count", gpu.nvlink_link_count);
  take_field("nvlink_link_bandwidth_bytes_per_s", gpu.nvlink_link_bandwidth_bytes_per_s);
  take_field("power_limit_default_w", gpu.power_limit_default_w);
  take_field("power_limit_min_w", gpu.power_limit_min_w);
  take_field("power_limit_max_w", gpu.power_limit_max_w);
  take_field("power_idle_w", gpu.power_idle_w);
  take_field("temperature_idle_celsius", gpu.temperature_idle_celsius);
  take_field("temperature_max_operating_celsius", gpu.temperature_max_operating_celsius);
  take_field("temperature_slowdown_celsius", gpu.temperature_slowdown_celsius);
  take_field("temperature_shutdown_celsius", gpu.temperature_shutdown_celsius);
  if (gpu.host_copy_bandwidth_bytes_per_s == 0 || gpu.memory_bandwidth_bytes_per_s == 0) {
    fail("has a bandwidth of 0");
  }
  return gpu;
}

DeviceProfile MachineParser::take_device(int index) {
  const std::string prefix = "device." + std::to_string(index) + ".";
  DeviceProfile device;
  device.uuid = take<std::string>(prefix + "uuid");
  device.pci_bus_id = take<std::string>(prefix + "pci_bus_id");
  device.numa_node = take<int>(prefix + "numa_node");
  for (const int major : kCudaMajors) {
    const std::string key = prefix + "properties." + std::to_string(major);
    const std::optional<Line> line = find_and_remove(key);
    if (!line) fail("lacks the key '" + key + "'");
    auto bytes = bytes_of_hex(line->value);
    if (!bytes) fail_value(key, *line, "hexadecimal");
    device.properties[major] = std::move(*bytes);
  }
  const std::string attributes = prefix + "attribute.";
  for (auto it = lines_.lower_bound(attributes);
       it != lines_.end() && it->first.starts_with(attributes); it = lines_.erase(it)) {
    const auto attribute = number<int>(std::string_view(it->first).substr(attributes.size()));
    if (!attribute) fail(it->second, "has the unknown key '" + it->first + "'");
    device.attributes[*attribute] = convert<int>(it->first, it->second);
  }
  return device;
}

Link MachineParser::take_link(int from, int to) {
  const std::string key = "link." + std::to_string(from) + "." + std::to_string(to);
  const std::optional<Line> line = find_and_remove(key);
  if (!line) fail("lacks the key '" + key + "'");
  const auto [level_text, after_level] = split(line->value);
  const auto [count_text, after_count] = split(after_level);
  const auto [bandwidth_text, peer_text] = split(after_count);
  const auto level = link_level(level_text);
  const auto count = number<int>(count_text);
  const auto bandwidth = number<std::uint64_t>(bandwidth_text);
  if (!level || !count || !bandwidth || *bandwidth == 0 || (peer_text != "0" && peer_text != "1")) {
    fail_value(key, *line, "'level NVLinks bytes/s peer-to-peer'");
  }
  return {*level, *count, *bandwidth, peer_text == "1"};
}

Machine Machine::parse(std::string_view text, std::string_view source) {
  return MachineParser(text, source).parse();
}

Machine Machine::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    throw ProfileError(path + " can't be read. Start programs with `warpserve run --gpu`.");
  return parse(text.view(), path);
}

const Machine& session_machine() {
  // Never destroyed: threads may use the GPUs while the process exits.
  static const Machine& machine = *new Machine([] {
    const char* path = std::getenv(kMachineFileVariable);
    if (path == nullptr || *path == '\0') {
      throw ProfileError(std::string(kMachineFileVariable) +
                         " is not set: it names the file that describes the GPUs. Start programs "
                         "with `warpserve run --gpu`.");
    }
    return Machine::read(path);
  }());
  return machine;
}

}  // namespace warpserve::gpu
