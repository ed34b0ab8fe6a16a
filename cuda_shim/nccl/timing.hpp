// How long collectives take: NCCL's own cost model, on the links of the session's machine.
//
// NCCL chooses the algorithm and protocol that its model says are fastest, and the model's answer
// is what an operation takes here, too:
//
//     t = base latency + steps x latency of a hop + bytes / bandwidth of the algorithm
//
// Sources. [T] NVIDIA/nccl, src/graph/tuning.cc of 2.28: latencies, caps and ratios for one node.
// [H] src/graph/topo.h: what of a link NCCL counts on. [P] NVIDIA/nccl-tests, doc/PERFORMANCE.md:
// from bus bandwidth to the time of an operation, in-network reduction included.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda_shim/device/profile.hpp"
#include "cuda_shim/nccl/types.hpp"

namespace warpserve::gpu::nccl {

class Timing {
 public:
  // Of a communicator whose ranks are on these devices of the machine, all different.
  Timing(const Machine& machine, std::vector<int> devices, bool in_network_reduction);

  // `signature` with its count as the call has it.
  VirtualDuration collective(const Signature& signature) const;

  // `load_bytes` are what the busier of both ends moves in that direction in one group: the
  // messages of a group share the ends' links. `from` and `to` are ranks.
  VirtualDuration message(int from, int to, std::uint64_t load_bytes) const;

 private:
  int ranks() const { return static_cast<int>(devices_.size()); }
  double microseconds(const Signature& signature) const;
  double ring(Operation operation, double bytes) const;
  double all_reduce(double bytes) const;
  double between(const Link& link, double bytes) const;

  const Machine& machine_;
  const std::vector<int> devices_;
  const Link* slowest_ = nullptr;  // of all pairs; null for one rank
  bool on_nvlink_ = true;          // all pairs of neighbours in the ring
  bool in_network_reduction_;      // and all pairs are joined by NVLink: a switch
  double bus_gb_per_s_ = 0;        // of one rank, one direction
};

}  // namespace warpserve::gpu::nccl
