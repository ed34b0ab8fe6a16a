#include "cuda_shim/nccl/timing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace warpserve::gpu::nccl {
namespace {

// LL sends a flag with every 4 bytes, LL128 one with every 120, Simple one with every chunk.
enum Protocol : std::size_t { kLl, kLl128, kSimple };
constexpr std::array kProtocols = {kLl, kLl128, kSimple};

using Latencies = std::array<double, 3>;  // by protocol, in us

// [T] baseLatencies and hwLatencies.
constexpr Latencies kTreeBase = {6.8, 14.0, 8.4};
constexpr Latencies kRingBase = {6.6, 14.0, 8.4};
constexpr Latencies kTreeHopOnNvlink = {0.6, 1.25, 4.0};
constexpr Latencies kRingHopOnNvlink = {0.6, 1.9, 3.4};
constexpr Latencies kTreeHopOnPcie = {1.0, 1.9, 4.0};
constexpr Latencies kRingHopOnPcie = {1.0, 2.5, 5.7};
constexpr double kInNetworkLatency = 25.0;

// What differs between architectures.
struct Generation {
  double ll_max_gb_per_s;   // [T] llMaxBws, one node
  double in_network_ratio;  // [T] nvlsEfficiency; 0: the switch does not reduce
};
constexpr Generation kAmpere = {87.7, 0.0};
constexpr Generation kHopper = {141.0, 0.85};
constexpr Generation kBlackwell = {282.0, 0.74};

const Generation& generation_of(const GpuKind& gpu) {
  if (gpu.compute_capability.starts_with("8.")) return kAmpere;
  return gpu.compute_capability.starts_with("9.") ? kHopper : kBlackwell;
}

// [H] SM80_, SM90_ and SM100_NVLINK_BW over the rates of one link, 25, 25 and 50 GB/s.
double nvlink_ratio(int generation) {
  if (generation <= 3) return 20.0 / 25.0;
  return generation == 4 ? 20.6 / 25.0 : 40.1 / 50.0;
}

double usable_gb_per_s(const GpuKind& gpu, const Link& link) {
  const double rate = static_cast<double>(link.bandwidth_bytes_per_s) / 1e9;
  return link.level == LinkLevel::kNvlink ? rate * nvlink_ratio(gpu.nvlink_generation.value_or(0))
                                          : rate;
}

// [T] treeCorrectionFactor: trees fall short of the model in the middle sizes. By protocol and
// power of two, from 64 bytes on.
constexpr std::size_t kCorrections = 23;
constexpr std::array<std::array<double, kCorrections>, 3> kTreeCorrection = {
    {{1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7,  .7,  .7,  .6, .5,
      .4,  .4,  .5,  .6,  .7, .8, .9, 1.0, 1.0, 1.0, 1.0},
     {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7,  .6, .6,
      .6,  .6,  .6,  .6,  .8,  .9, .9, .9, .9, 1.0, 1.0},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

double tree_correction(Protocol protocol, double bytes) {
  const auto units = static_cast<std::uint64_t>(bytes) >> 6;
  if (units == 0) return 1.0;
  const auto power = static_cast<std::size_t>(std::bit_width(units) - 1);
  return power < kCorrections ? kTreeCorrection[protocol][power] : 1.0;
}

double transfer_us(double bytes, double gb_per_s) {
  return bytes / (1e3 * gb_per_s);
}

VirtualDuration duration_of(double us) {
  return VirtualDuration::from_ns(static_cast<std::int64_t>(std::ceil(us * 1e3)));
}

// [T] What a protocol leaves of the bus in a ring.
double ring_bandwidth(Protocol protocol, double bus, const Generation& generation) {
  if (protocol == kLl) return std::min(generation.ll_max_gb_per_s, bus * 0.5);
  return protocol == kLl128 ? bus * 0.92 : bus;
}

double tree_bandwidth(Protocol protocol, double bus, const Generation& generation) {
  const double tree = bus * 0.92;
  if (protocol == kLl) return std::min(tree / 3.8, generation.ll_max_gb_per_s);
  return protocol == kLl128 ? tree * 7.0 / 9.0 : tree;
}

}  // namespace

Timing::Timing(const Machine& machine, std::vector<int> devices, bool in_network_reduction)
    : machine_(machine), devices_(std::move(devices)), in_network_reduction_(in_network_reduction) {
  const GpuKind& gpu = machine.gpu();
  bus_gb_per_s_ = static_cast<double>(gpu.memory_bandwidth_bytes_per_s) / 2e9;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      if (i == j) continue;
      const Link& link = machine.link(devices_[i], devices_[j]);
      const bool is_nvlink = link.level == LinkLevel::kNvlink;
      in_network_reduction_ = in_network_reduction_ && is_nvlink;
      if (slowest_ == nullptr || usable_gb_per_s(gpu, link) < usable_gb_per_s(gpu, *slowest_)) {
        slowest_ = &link;
      }
      if (j != (i + 1) % devices_.size()) continue;
      on_nvlink_ = on_nvlink_ && is_nvlink;
      bus_gb_per_s_ = std::min(bus_gb_per_s_, usable_gb_per_s(gpu, link));
    }
  }
}

VirtualDuration Timing::collective(const Signature& signature) const {
  return duration_of(microseconds(signature));
}

double Timing::microseconds(const Signature& signature) const {
  const auto bytes = static_cast<double>(signature.bytes());
  // A rank alone copies: every byte is read and written.
  if (ranks() == 1) return transfer_us(bytes, bus_gb_per_s_);
  switch (signature.operation) {
    case Operation::kAllReduce:
      return all_reduce(bytes);
    case Operation::kReduce:
    case Operation::kBroadcast:
      return ring(signature.operation, bytes);
    case Operation::kAllGather:
    case Operation::kReduceScatter:
      return ring(signature.operation, bytes * ranks());
    default:
      // Messages between all ranks, or all and one: the busiest rank moves its part of all others.
      return between(*slowest_, bytes * (ranks() - 1));
  }
}

double Timing::ring(Operation operation, double bytes) const {
  const bool is_chain = operation == Operation::kReduce || operation == Operation::kBroadcast;
  const int steps = operation == Operation::kAllReduce ? 2 * (ranks() - 1)
                    : is_chain                         ? ranks()
                                                       : ranks() - 1;
  const Latencies& hop = on_nvlink_ ? kRingHopOnNvlink : kRingHopOnPcie;
  double best = std::numeric_limits<double>::infinity();
  for (const Protocol protocol : kProtocols) {
    if (protocol == kLl128 && !on_nvlink_) continue;  // [T] needs 128 bytes stored at once
    const double bus = ring_bandwidth(protocol, bus_gb_per_s_, generation_of(machine_.gpu()));
    const double latency = kRingBase[protocol] + (is_chain ? 1 : steps) * hop[protocol];
    best = std::min(best, latency + transfer_us(bytes, bus * ranks() / steps));
  }
  return best;
}

double Timing::all_reduce(double bytes) const {
  const Generation& generation = generation_of(machine_.gpu());
  double best = ring(Operation::kAllReduce, bytes);
  const Latencies& hop = on_nvlink_ ? kTreeHopOnNvlink : kTreeHopOnPcie;
  for (const Protocol protocol : kProtocols) {
    if (protocol == kLl128 && !on_nvlink_) continue;
    const double bus = tree_bandwidth(protocol, bus_gb_per_s_, generation);
    const double latency = kTreeBase[protocol] + 2 * (ranks() - 1) * hop[protocol];
    best =
        std::min(best, latency + transfer_us(bytes, bus * 0.5 * tree_correction(protocol, bytes)));
  }
  // NVLS: the switch adds. [P] A rank's link then carries (n + 1)/n of the bytes each way. NCCL
  // sets it up for more than two GPUs.
  if (in_network_reduction_ && ranks() > 2 && generation.in_network_ratio > 0) {
    const double bandwidth = bus_gb_per_s_ * generation.in_network_ratio * ranks() / (ranks() + 1);
    best = std::min(best, kInNetworkLatency + transfer_us(bytes, bandwidth));
  }
  return best;
}

double Timing::between(const Link& link, double bytes) const {
  const double bus = usable_gb_per_s(machine_.gpu(), link);
  const bool is_nvlink = link.level == LinkLevel::kNvlink;
  const Latencies& hop = is_nvlink ? kRingHopOnNvlink : kRingHopOnPcie;
  double best = std::numeric_limits<double>::infinity();
  for (const Protocol protocol : {kLl, kSimple}) {
    const double bandwidth = ring_bandwidth(protocol, bus, generation_of(machine_.gpu()));
    best = std::min(best, kRingBase[protocol] + hop[protocol] + transfer_us(bytes, bandwidth));
  }
  return best;
}

VirtualDuration Timing::message(int from, int to, std::uint64_t load_bytes) const {
  const auto bytes = static_cast<double>(load_bytes);
  if (from == to) {
    return duration_of(transfer_us(
        2 * bytes, static_cast<double>(machine_.gpu().memory_bandwidth_bytes_per_s) / 1e9));
  }
  const auto device = [this](int rank) { return devices_[static_cast<std::size_t>(rank)]; };
  return duration_of(between(machine_.link(device(from), device(to)), bytes));
}

}  // namespace warpserve::gpu::nccl
