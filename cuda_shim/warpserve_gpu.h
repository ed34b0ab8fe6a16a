/* The C API of the virtual GPUs, for patches of engines: what CUDA has no words for.
 *
 * Durations are ns of virtual time. Streams are cudaStream_t or CUstream. Functions return 0 or a
 * cudaError_t. They are exported by libwarpserve_gpu, which is preloaded under
 * `warpserve run --gpu`: look them up with dlsym(RTLD_DEFAULT, …) or ctypes.CDLL(None).
 */
#ifndef WARPSERVE_GPU_H
#define WARPSERVE_GPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Work of that duration at the end of the stream, as a kernel would be; captured like one. */
int ws_gpu_enqueue(void* stream, int64_t duration_ns);

/* What this thread allocates until the matching end is memory that the CPU can read and write, and
 * that copies really move, whatever its size. Pairs nest. */
void ws_gpu_control_begin(void);
void ws_gpu_control_end(void);

/* Makes an allocation that nothing was copied to yet such memory. */
int ws_gpu_mark_control(void* address);

#ifdef __cplusplus
}
#endif

#endif /* WARPSERVE_GPU_H */
