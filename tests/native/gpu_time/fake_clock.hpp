// Clocks for tests, without a session.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "cuda_shim/device/session_clock.hpp"

namespace warpserve::gpu {

// For tests with one thread: waiting is what moves time, and `advance`.
class ManualClock final : public SessionClock {
 public:
  VirtualTime now() override { return now_.load(); }
  void wait_until(VirtualTime target) override {
    if (target > now()) now_.store(target);
  }
  bool wait_until(std::condition_variable&, std::unique_lock<std::mutex>&,
                  VirtualTime target) override {
    wait_until(target);
    return true;
  }
  void note_idle_poll() override { ++idle_polls; }

  void advance(VirtualDuration duration) { wait_until(now() + duration); }

  int idle_polls = 0;

 private:
  std::atomic<VirtualTime> now_{VirtualTime()};
};

// For tests with threads: *settle* in small. A thread of its own moves time to the earliest target
// when all others sleep and none has run between two looks.
class SettlingClock final : public SessionClock {
 public:
  SettlingClock() : advancer_([this] { advance_while_wanted(); }) {}
  ~SettlingClock() override {
    stopped_ = true;
    advancer_.join();
  }

  VirtualTime now() override { return now_.load(); }

  void wait_until(VirtualTime target) override {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable never_notified;
    while (!wait_until(never_notified, lock, target)) {
    }
  }

  bool wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                  VirtualTime target) override {
    if (target <= now()) return true;
    const Waiter waiter = {&condition, lock.mutex()};
    {
      const std::lock_guard guard(mutex_);
      waiters_.emplace(target, waiter);
    }
    condition.wait(lock);
    const std::lock_guard guard(mutex_);
    remove(target, waiter);
    return target <= now();
  }

  // Charged at once.
  void note_idle_poll() override { wait_until(now() + VirtualDuration::from_ns(1)); }

 private:
  struct Waiter {
    std::condition_variable* condition;
    std::mutex* mutex;
  };

  void remove(VirtualTime target, const Waiter& waiter) {
    const auto [first, last] = waiters_.equal_range(target);
    for (auto it = first; it != last; ++it) {
      if (it->second.condition != waiter.condition) continue;
      waiters_.erase(it);
      return;
    }
  }

  void advance_while_wanted() {
    own_tid_ = std::to_string(gettid());
    while (!stopped_) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const auto before = look();
      if (!before || look() != before) continue;
      const auto first = first_waiter();
      if (!first) continue;
      const auto& [target, waiter] = *first;
      if (target > now()) now_.store(target);
      // With the mutex: it waits by then, and can't be gone before it is notified.
      const std::lock_guard lock(*waiter.mutex);
      waiter.condition->notify_all();
    }
  }

  std::optional<std::pair<VirtualTime, Waiter>> first_waiter() {
    const std::lock_guard guard(mutex_);
    if (waiters_.empty()) return std::nullopt;
    return *waiters_.begin();
  }

  // How often each thread has run, where all but the advancer sleep.
  std::optional<std::map<std::string, std::string>> look() const {
    std::map<std::string, std::string> runs;
    DIR* const tasks = opendir("/proc/self/task");
    bool all_sleep = true;
    while (const dirent* entry = readdir(tasks)) {
      const std::string tid = entry->d_name;
      if (tid == "." || tid == ".." || tid == own_tid_) continue;
      const std::string folder = "/proc/self/task/" + tid;
      runs[tid] = last_word(folder + "/schedstat");
      all_sleep = all_sleep && state(folder + "/stat") == 'S';
    }
    closedir(tasks);
    if (!all_sleep) return std::nullopt;
    return runs;
  }

  static std::string last_word(const std::string& path) {
    std::ifstream file(path);
    std::string word;
    while (file >> word) {
    }
    return word;
  }
  static char state(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    const std::size_t end_of_name = text.str().rfind(')');
    return end_of_name == std::string::npos ? '?' : text.str().at(end_of_name + 2);
  }

  std::atomic<VirtualTime> now_{VirtualTime()};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::multimap<VirtualTime, Waiter> waiters_;
  std::string own_tid_;
  std::thread advancer_;
};

}  // namespace warpserve::gpu
