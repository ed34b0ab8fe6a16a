// The clock of a process outside a session: the host's.
#include <atomic>
#include <thread>

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve;
using namespace warpserve::gpu;

TEST(time_begins_at_zero_and_passes) {
  SessionClock& clock = process_clock();
  const VirtualTime first = clock.now();
  CHECK(first >= at(0));
  CHECK(first < at(60'000'000'000));
  clock.wait_until(first + VirtualDuration::from_ms(2));
  CHECK(clock.now() >= first + VirtualDuration::from_ms(2));
  clock.wait_until(first);  // has passed
  clock.note_idle_poll();
}

TEST(a_wait_on_a_condition_ends_at_its_target) {
  SessionClock& clock = process_clock();
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  const VirtualTime target = clock.now() + VirtualDuration::from_ms(2);
  while (!clock.wait_until(condition, lock, target)) {
  }
  CHECK(clock.now() >= target);
}

TEST(a_wait_on_a_condition_ends_with_a_notification) {
  SessionClock& clock = process_clock();
  std::mutex mutex;
  std::condition_variable condition;
  bool notified = false;
  std::thread notifier([&] {
    const std::lock_guard lock(mutex);
    notified = true;
    condition.notify_all();
  });
  std::unique_lock lock(mutex);
  const VirtualTime target = clock.now() + VirtualDuration::from_ms(600'000);
  while (!notified) CHECK(!clock.wait_until(condition, lock, target));
  lock.unlock();
  notifier.join();
  CHECK(clock.now() < target);
}
