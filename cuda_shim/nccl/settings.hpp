// The variables of NCCL that change how long operations take.
#pragma once

namespace warpserve::gpu::nccl {

// Whether switches may add (NVLS): NCCL_NVLS_ENABLE, and NCCL_CUMEM_ENABLE, which it needs.
bool allows_in_network_reduction();

// Says once on standard error which variables are set that change nothing here.
void warn_of_ignored_settings();

}  // namespace warpserve::gpu::nccl
