// A library with a static runtime of its own and kernels, which it registers while it is opened.
#include <cuda_runtime.h>

__global__ void kernel() {}

extern "C" int launch() {
  kernel<<<1, 32>>>();
  return cudaGetLastError();
}
