// Wrong use; prints the name of each error.
#include "runtime.hpp"

namespace {

void print(const char* name, cudaError_t error) {
  std::printf("%s %s\n", name, cudaGetErrorName(error));
}

// As libraries do in the destructors of their static objects, after the thread's own are gone.
struct UsesTheGpuAtExit {
  ~UsesTheGpuAtExit() {
    int device = -1;
    print("get_device_at_exit", cudaGetDevice(&device));
    print("set_device_at_exit", cudaSetDevice(device));
  }
} uses_the_gpu_at_exit;

}  // namespace

int main() {
  void* pointer = nullptr;
  int number = 0;
  float ms = 0;
  print("count_to_null", cudaGetDeviceCount(nullptr));
  print("set_device_2", cudaSetDevice(2));
  print("set_device_minus_1", cudaSetDevice(-1));
  print("peer_of_2", cudaDeviceCanAccessPeer(&number, 0, 2));
  print("malloc_to_null", cudaMalloc(nullptr, 16));
  print("malloc_too_much", cudaMalloc(&pointer, std::size_t{1} << 45));
  print("peek", cudaPeekAtLastError());
  print("last", cudaGetLastError());
  print("last_again", cudaGetLastError());
  print("patch_call", static_cast<cudaError_t>(enqueue(nullptr, -1)));
  print("last_after_patch_call", cudaGetLastError());

  print("malloc", cudaMalloc(&pointer, 256));
  print("free_inside", cudaFree(static_cast<char*>(pointer) + 16));
  print("free", cudaFree(pointer));
  print("free_again", cudaFree(pointer));
  print("free_null", cudaFree(nullptr));
  print("free_host_of_a_stranger", cudaFreeHost(&number));
  print("unregister_stranger", cudaHostUnregister(&number));
  print("copy_to_null", cudaMemcpy(nullptr, &number, 4, cudaMemcpyHostToDevice));

  cudaStream_t stream = nullptr;
  print("stream_to_null", cudaStreamCreate(nullptr));
  print("stream_flags", cudaStreamCreateWithFlags(&stream, 8));
  print("stream", cudaStreamCreate(&stream));
  print("destroy", cudaStreamDestroy(stream));
  print("destroy_again", cudaStreamDestroy(stream));
  print("synchronize_destroyed", cudaStreamSynchronize(stream));
  print("event_of_a_stranger", cudaEventQuery(reinterpret_cast<cudaEvent_t>(&number)));

  cudaEvent_t event = nullptr, timed = nullptr;
  print("event_flags", cudaEventCreateWithFlags(&event, 64));
  print("event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  print("timed", cudaEventCreate(&timed));
  print("elapsed_never_recorded", cudaEventElapsedTime(&ms, timed, timed));
  print("elapsed_without_timing", cudaEventElapsedTime(&ms, event, event));
  print("record_in_destroyed", cudaEventRecord(event, stream));
  print("destroy_event", cudaEventDestroy(event));
  print("destroy_event_again", cudaEventDestroy(event));

  print("other_device", cudaSetDevice(1));
  print("stream_of_1", cudaStreamCreate(&stream));
  print("record_across_devices", cudaEventRecord(timed, stream));
  print("peer_self", cudaDeviceEnablePeerAccess(1, 0));
  print("peer", cudaDeviceEnablePeerAccess(0, 0));
  print("peer_again", cudaDeviceEnablePeerAccess(0, 0));
  print("peer_off", cudaDeviceDisablePeerAccess(0));
  print("peer_off_again", cudaDeviceDisablePeerAccess(0));

  launch_empty_kernel(1, 2048, stream, nullptr);
  print("too_many_threads", cudaGetLastError());
  print("launch_no_kernel", cudaLaunchKernel(&number, {1, 1, 1}, {1, 1, 1}, nullptr, 0, stream));

  cudaGraph_t graph = nullptr;
  print("end_no_capture", cudaStreamEndCapture(stream, &graph));
  print("begin_capture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  print("query_in_capture", cudaStreamQuery(stream));
  print("end_capture", cudaStreamEndCapture(stream, &graph));
  print("destroy_no_graph", cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(&number)));
  return 0;
}
