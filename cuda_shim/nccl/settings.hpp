// The variables of NCCL that change how long operations take, and one of ours.
#pragma once

namespace warpserve::gpu::nccl {

// Whether switches may add (NVLS): NCCL_NVLS_ENABLE, and NCCL_CUMEM_ENABLE, which it needs.
bool allows_in_network_reduction();

// WARPSERVE_GHOST_RANKS=1: all other ranks exist in name only. Whatever this rank posts, they post
// at the same instant, from the next GPUs in order of rank.
bool other_ranks_are_ghosts();

// Says once on standard error which variables are set that change nothing here.
void warn_of_ignored_settings();

}  // namespace warpserve::gpu::nccl
