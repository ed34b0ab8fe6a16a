// For the files of cuda_shim/cudart/: the runtime's prototypes, exported.
#pragma once

#pragma GCC visibility push(default)
#include "cudart.hpp"
#pragma GCC visibility pop

#include "cuda_shim/entry/call.hpp"

#define RUNTIME_STREAM_CALL(name, per_thread_name, parameters, ...)                      \
  WARPSERVE_STREAM_CALL(warpserve::gpu::runtime_call, name, per_thread_name, parameters, \
                        __VA_ARGS__)
