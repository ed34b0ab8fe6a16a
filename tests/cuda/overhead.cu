// What calls cost the host, in ns, medians; runs in a session.
#include <algorithm>
#include <vector>

#include "runtime.hpp"

namespace {

constexpr int kSamples = 200;
constexpr int kCallsInSample = 50;

template <class Call>
void print(const char* name, const Call& call) {
  using HostNow = std::int64_t();
  static auto* const host_now = reinterpret_cast<HostNow*>(dlsym(RTLD_DEFAULT, "ws_host_now_ns"));
  std::vector<std::int64_t> samples;
  for (int i = 0; i < kSamples; ++i) {
    const std::int64_t begin = host_now();
    for (int j = 0; j < kCallsInSample; ++j) call();
    samples.push_back((host_now() - begin) / kCallsInSample);
  }
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  std::printf("%s %ld\n", name, static_cast<long>(samples[kSamples / 2]));
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  print("launch", [&] { launch_empty_kernel(1, 32, stream, nullptr); });
  print("record_and_wait", [&] {
    static_cast<void>(cudaEventRecord(event, stream));
    static_cast<void>(cudaStreamWaitEvent(stream, event, 0));
  });
  void* pointer = nullptr;
  const auto allocate_and_free = [&](std::size_t bytes) {
    static_cast<void>(cudaMalloc(&pointer, bytes));
    static_cast<void>(cudaFree(pointer));
  };
  print("malloc_1_kib", [&] { allocate_and_free(1 << 10); });
  print("malloc_64_mib", [&] { allocate_and_free(64 << 20); });
  return 0;
}
