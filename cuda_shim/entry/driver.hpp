// For the files of cuda_shim/cuda/: the driver's prototypes, exported.
#pragma once

#pragma GCC visibility push(default)
#include "cuda.hpp"
#pragma GCC visibility pop

#include "cuda_shim/entry/call.hpp"

#define DRIVER_STREAM_CALL(name, per_thread_name, parameters, ...) \
  WARPSERVE_STREAM_CALL(warpserve::gpu::driver_call, name, per_thread_name, parameters, __VA_ARGS__)
