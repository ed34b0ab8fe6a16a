// Host time of clock reads and of lone jumps, measured inside a member.
//
//   clock_benchmark read          median ns of a clock_gettime, over batches
//   clock_benchmark jump THREADS  median us of a 1 us sleep, with THREADS threads asleep beside it
//   clock_benchmark actor         median us of an explicit actor's 1 us jump
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

#include "timekeeper/preload/warpserve.h"

namespace {

template <class Function>
Function* api(const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    fprintf(stderr, "run this with `warpserve run`: %s is not there\n", name);
    exit(2);
  }
  return reinterpret_cast<Function*>(symbol);
}

const auto host_now_ns = api<decltype(ws_host_now_ns)>("ws_host_now_ns");

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

double read_ns() {
  constexpr int kBatch = 1'000;
  std::vector<double> samples;
  for (int i = 0; i < 2'000; ++i) {
    timespec now{};
    const std::int64_t begin = host_now_ns();
    for (int j = 0; j < kBatch; ++j) clock_gettime(CLOCK_MONOTONIC, &now);
    samples.push_back(static_cast<double>(host_now_ns() - begin) / kBatch);
    const timespec pause{.tv_sec = 0, .tv_nsec = 1};  // so that this is no busy-wait
    nanosleep(&pause, nullptr);
  }
  return median(samples);
}

template <class Jump>
double jump_us(Jump jump) {
  constexpr int kJumps = 5'000;
  std::vector<double> samples;
  for (int i = 0; i < kJumps; ++i) {
    const std::int64_t begin = host_now_ns();
    jump();
    samples.push_back(static_cast<double>(host_now_ns() - begin) / 1e3);
  }
  return median(samples);
}

double sleep_us(int sleeping_threads) {
  std::counting_semaphore<> end(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < sleeping_threads; ++i) threads.emplace_back([&end] { end.acquire(); });
  const double us = jump_us([] {
    const timespec microsecond{.tv_sec = 0, .tv_nsec = 1'000};
    nanosleep(&microsecond, nullptr);
  });
  end.release(sleeping_threads);
  for (std::thread& thread : threads) thread.join();
  return us;
}

double actor_us() {
  const auto jump = api<decltype(ws_actor_jump)>("ws_actor_jump");
  ws_actor* actor = nullptr;
  if (api<decltype(ws_actor_create)>("ws_actor_create")("benchmark", &actor) != WS_OK) exit(1);
  return jump_us([=] { jump(actor, 1'000); });
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "read") == 0) {
    printf("%.1f\n", read_ns());
  } else if (strcmp(what, "jump") == 0 && argc == 3) {
    printf("%.1f\n", sleep_us(atoi(argv[2])));
  } else if (strcmp(what, "actor") == 0) {
    printf("%.1f\n", actor_us());
  } else {
    fprintf(stderr, "usage: clock_benchmark read | jump THREADS | actor\n");
    return 2;
  }
  return 0;
}
