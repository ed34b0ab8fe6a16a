// PyTorch's operators on control memory are computed by a library that torch loads at its import
// (torch_ops/). Where it did not, all of them do nothing, and nobody would notice.
#pragma once

namespace warpserve::gpu {

// That library is loaded.
void announce_host_operators();

// At each launch of a kernel: says on standard error, once, that torch launches kernels though the
// library is not loaded.
void check_host_operators();

}  // namespace warpserve::gpu
