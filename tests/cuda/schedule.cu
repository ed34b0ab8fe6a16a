// Streams, events, copies and a graph; prints what took how long, in ns.
#include <ctime>
#include <initializer_list>

#include "runtime.hpp"

namespace {

constexpr std::size_t kBytes = 64 << 20;
constexpr std::int64_t kMs = 1'000'000;

std::int64_t now_ns() {
  timespec reading{};
  clock_gettime(CLOCK_MONOTONIC, &reading);
  return reading.tv_sec * 1'000'000'000L + reading.tv_nsec;
}

void print(const char* name, std::int64_t from_ns) {
  std::printf("%s %ld\n", name, static_cast<long>(now_ns() - from_ns));
}

}  // namespace

int main() {
  cudaStream_t first = nullptr, second = nullptr;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t done = nullptr, start = nullptr, end = nullptr;
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));

  std::int64_t begin = now_ns();
  launch_empty_kernel(1, 32, first, nullptr);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(first));
  print("empty_kernel", begin);

  begin = now_ns();
  enqueue(first, 5 * kMs);
  CHECK(cudaEventRecord(done, first));
  enqueue(second, 2 * kMs);
  CHECK(cudaStreamWaitEvent(second, done, 0));
  enqueue(second, 3 * kMs);
  std::printf("not_ready %u\n", static_cast<unsigned>(cudaStreamQuery(second)));
  print("enqueued", begin);
  CHECK(cudaStreamSynchronize(second));
  print("joined", begin);

  void *device = nullptr, *host = nullptr;
  CHECK(cudaMalloc(&device, kBytes));
  CHECK(cudaMallocHost(&host, kBytes));
  begin = now_ns();
  CHECK(cudaEventRecord(start, first));
  CHECK(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, first));
  CHECK(cudaEventRecord(end, first));
  enqueue(second, kMs);
  CHECK(cudaDeviceSynchronize());
  print("copy_beside_work", begin);
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, start, end));
  std::printf("copy_us %d\n", static_cast<int>(ms * 1000));

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  enqueue(first, 4 * kMs);
  launch_empty_kernel(1, 32, first, nullptr);
  CHECK(cudaEventRecord(done, first));
  CHECK(cudaStreamWaitEvent(second, done, 0));
  enqueue(second, 2 * kMs);
  CHECK(cudaEventRecord(done, second));
  CHECK(cudaStreamWaitEvent(first, done, 0));
  CHECK(cudaStreamEndCapture(first, &graph));
  std::size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  std::printf("nodes %zu\n", nodes);
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  begin = now_ns();
  CHECK(cudaGraphLaunch(executable, first));
  CHECK(cudaGraphLaunch(executable, first));
  CHECK(cudaStreamSynchronize(first));
  print("two_graphs", begin);

  int values[256], back[256] = {};
  for (int i = 0; i < 256; ++i) values[i] = i * i;
  void *small = nullptr, *copy = nullptr;
  CHECK(cudaMalloc(&small, sizeof(values)));
  CHECK(cudaMalloc(&copy, sizeof(values)));
  CHECK(cudaMemcpy(small, values, sizeof(values), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(copy, small, sizeof(values), cudaMemcpyDeviceToDevice));
  CHECK(cudaMemcpy(back, copy, sizeof(values), cudaMemcpyDeviceToHost));
  std::printf("moved %d\n", back[255]);

  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  for (void* address : {device, small, copy}) CHECK(cudaFree(address));
  CHECK(cudaFreeHost(host));
  for (cudaEvent_t event : {done, start, end}) CHECK(cudaEventDestroy(event));
  for (cudaStream_t stream : {first, second}) CHECK(cudaStreamDestroy(stream));
  return 0;
}
