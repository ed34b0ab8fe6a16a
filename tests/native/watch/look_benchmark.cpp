// What a look costs: prints microseconds of CPU time, asserts nothing.
//   look_benchmark [THREADS]
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/native/watch/session.hpp"

namespace {

constexpr int kRounds = 1'000;

double median_us(std::vector<double>& samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// CPU time of this thread: other work on the machine does not count.
double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double cost_us(warpserve::ProcessWatch& watch) {
  const double begin = cpu_us();
  watch.look();
  return cpu_us() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 60;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  warpserve::raise_descriptor_limit();
  const scene::Pipe to_worker;
  const scene::Pipe to_us;
  const pid_t pid = scene::start([&] {
    for (int i = 1; i < threads; ++i) std::thread(scene::sleep_for_ever).detach();
    for (;;) {
      to_worker.await();
      to_us.signal();
    }
  });
  warpserve::ProcessWatch watch(getpid());
  if (!scene::settles(watch)) return 1;

  std::vector<double> idle;
  std::vector<double> after_one_ran;
  for (int i = 0; i < kRounds; ++i) {
    idle.push_back(cost_us(watch));
    to_worker.signal();
    to_us.await();
    scene::pause_host(std::chrono::microseconds(50));
    after_one_ran.push_back(cost_us(watch));
    while (!watch.look().settled()) {
    }
  }
  std::printf("a look at %zu threads: idle %.1f us, after one ran %.1f us (CPU, medians)\n",
              watch.thread_count(), median_us(idle), median_us(after_one_ran));
  scene::end(pid);
  return 0;
}
