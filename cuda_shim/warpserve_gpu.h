/* The C API of the virtual GPUs, for patches of engines: what CUDA has no words for.
 *
 * Durations are ns of virtual time. Streams are cudaStream_t or CUstream. Functions return 0 or a
 * cudaError_t, of which cudaGetLastError knows nothing. They are exported by libwarpserve_gpu,
 * which is preloaded under `warpserve run --gpu`: look them up with dlsym(RTLD_DEFAULT, …) or
 * ctypes.CDLL(None).
 */
#ifndef WARPSERVE_GPU_H
#define WARPSERVE_GPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Work of that duration at the end of the stream, as a kernel would be; captured like one. */
int ws_gpu_enqueue(void* stream, int64_t duration_ns);

/* The virtual time, in ns of the session, at which an event (cudaEvent_t or CUevent, with timing)
 * was or will be reached. cudaErrorNotReady (600) as long as that depends on others: a collective's
 * ranks, a host function. */
int ws_gpu_event_instant(void* event, int64_t* instant_ns);

/* What this thread allocates until the matching end is memory that the CPU can read and write, and
 * that copies really move, whatever its size. Pairs nest. */
void ws_gpu_control_begin(void);
void ws_gpu_control_end(void);

/* Makes an allocation that nothing was copied to yet such memory. */
int ws_gpu_mark_control(void* address);

/* 1 where the CPU can read and write all of these bytes: control memory, or the host's. Else 0. */
int ws_gpu_is_control(const void* address, uint64_t bytes);

/* Who computes on control memory in place of a kernel asks first whether the stream has come so
 * far: at once, in its order behind work whose end is not known yet, or as part of a graph. */
enum ws_gpu_progress_state {
  WS_GPU_UP_TO_DATE = 0, /* all earlier work has done what it does to control memory */
  WS_GPU_PENDING = 1,    /* it waits for others: a collective's ranks, a host function */
  WS_GPU_CAPTURING = 2,  /* what comes becomes part of a graph */
  WS_GPU_INVALID = 3,    /* no stream */
};
int ws_gpu_progress(void* stream);

/* Blocks until the stream is up to date. Does not wait for the time at which its work ends. */
int ws_gpu_catch_up(void* stream);

/* A kernel of no duration at the end of the stream that does `run(data)` to control memory, in the
 * stream's order: maybe in another thread, and at each launch of the graph where the stream
 * captures. `run` must not call CUDA, nor wait. `release(data)` follows when it will not run again,
 * also where this fails. */
int ws_gpu_enqueue_effect(void* stream, void (*run)(void*), void (*release)(void*), void* data);

/* In a forked child: it may use the GPUs as a process that was started afresh, although its parent
 * had asked about them. cudaErrorInitializationError (3), as CUDA's own calls have it there, where
 * the parent had memory of theirs. */
int ws_gpu_begin_anew(void);

/* PyTorch's operators are computed from now on (torch_ops/): else the first kernel that torch
 * launches is a warning. */
void ws_gpu_announce_host_operators(void);

#ifdef __cplusplus
}
#endif

#endif /* WARPSERVE_GPU_H */
