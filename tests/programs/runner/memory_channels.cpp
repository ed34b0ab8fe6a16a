#include "tests/programs/runner/memory_channels.hpp"

#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

#include "tests/programs/runner/clocks.hpp"
#include "tests/programs/runner/descriptors.hpp"
#include "tests/programs/runner/fail.hpp"
#include "tests/programs/runner/futex.hpp"
#include "tests/programs/runner/shared.hpp"

namespace programs {

namespace {

// The messages; what they may be read after is the counter's matter.
struct Messages {
  void put(std::int64_t payload) {
    expect(sent < payloads.size(), "a channel is full");
    payloads[sent++] = payload;
  }
  std::int64_t take() { return payloads[received++]; }

  std::array<std::int64_t, 256> payloads{};
  std::size_t sent = 0;      // the sender's
  std::size_t received = 0;  // the receiver's
};

[[noreturn]] void fail_unknown(const std::string& means) {
  fail("no way to wait here is called " + means);
}

// `Counter` has post(), wait(means), and wait_for(means, ns): whether there was one to take.
template <class Counter>
class CountedChannel : public Channel {
 public:
  void send(std::int64_t payload) override {
    messages_->put(payload);
    counter_.post();
  }

  std::int64_t receive(const std::string& means) override {
    counter_.wait(means);
    return messages_->take();
  }

  std::optional<std::int64_t> receive_for(const std::string& means, std::int64_t ns) override {
    if (!counter_.wait_for(means, ns)) return std::nullopt;
    return messages_->take();
  }

 private:
  Shared<Messages> messages_;
  Counter counter_;
};

class Eventfd {
 public:
  void post() { must(eventfd_write(eventfd_.get(), 1), "eventfd_write"); }

  void wait(const std::string& means) {
    expect(wait_readable(means, eventfd_.get(), std::nullopt), "a wait without a timeout");
    take();
  }

  bool wait_for(const std::string& means, std::int64_t ns) {
    if (!wait_readable(means, eventfd_.get(), ns)) return false;
    take();
    return true;
  }

 private:
  void take() {
    eventfd_t value = 0;
    must(eventfd_read(eventfd_.get(), &value), "eventfd_read");
  }

  Descriptor eventfd_{eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
};

class Semaphore {
 public:
  Semaphore() { must(sem_init(&*semaphore_, 1, 0), "sem_init"); }

  void post() { must(sem_post(&*semaphore_), "sem_post"); }

  void wait(const std::string&) { must(sem_wait(&*semaphore_), "sem_wait"); }

  bool wait_for(const std::string& means, std::int64_t ns) {
    const int result = timed_wait(means, ns);
    expect(result == 0 || errno == ETIMEDOUT, "a timed wait on a semaphore");
    return result == 0;
  }

 private:
  int timed_wait(const std::string& means, std::int64_t ns) {
    if (means == "sem_timedwait") {
      const timespec end = reading_in(CLOCK_REALTIME, ns);
      return sem_timedwait(&*semaphore_, &end);
    }
    if (means == "sem_clockwait") {
      const timespec end = reading_in(CLOCK_MONOTONIC, ns);
      return sem_clockwait(&*semaphore_, CLOCK_MONOTONIC, &end);
    }
    fail_unknown(means);
  }

  Shared<sem_t> semaphore_;
};

class FutexCounter {
 public:
  void post() {
    word_->fetch_add(1);
    futex_wake(*word_);
  }

  void wait(const std::string&) {
    while (!try_take()) futex_wait(*word_, FUTEX_WAIT, 0, nullptr);
  }

  bool wait_for(const std::string& means, std::int64_t ns) {
    const auto [operation, timeout] = timed_wait(means, ns);
    while (!try_take()) {
      if (futex_wait(*word_, operation, 0, &timeout) == -1 && errno == ETIMEDOUT) return false;
    }
    return true;
  }

 private:
  bool try_take() {
    if (word_->load() == 0) return false;
    word_->fetch_sub(1);
    return true;
  }

  static std::pair<int, timespec> timed_wait(const std::string& means, std::int64_t ns) {
    if (means == "futex_wait") return {FUTEX_WAIT, timespec_of(ns)};
    if (means == "futex_wait_bitset") {
      return {FUTEX_WAIT_BITSET, reading_in(CLOCK_MONOTONIC, ns)};
    }
    if (means == "futex_wait_bitset_realtime") {
      return {FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, reading_in(CLOCK_REALTIME, ns)};
    }
    fail_unknown(means);
  }

  Shared<FutexWord> word_;
};

struct SharedConditionState {
  SharedConditionState() {
    pthread_mutexattr_t mutex_attributes;
    pthread_mutexattr_init(&mutex_attributes);
    pthread_mutexattr_setpshared(&mutex_attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&mutex, &mutex_attributes);
    pthread_mutexattr_destroy(&mutex_attributes);
    pthread_condattr_t condition_attributes;
    pthread_condattr_init(&condition_attributes);
    pthread_condattr_setpshared(&condition_attributes, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&condition, &condition_attributes);
    pthread_condattr_destroy(&condition_attributes);
  }

  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int count = 0;
};

class SharedCondition {
 public:
  void post() {
    pthread_mutex_lock(&state_->mutex);
    ++state_->count;
    pthread_cond_signal(&state_->condition);
    pthread_mutex_unlock(&state_->mutex);
  }

  void wait(const std::string&) {
    pthread_mutex_lock(&state_->mutex);
    while (state_->count == 0) pthread_cond_wait(&state_->condition, &state_->mutex);
    --state_->count;
    pthread_mutex_unlock(&state_->mutex);
  }

  bool wait_for(const std::string& means, std::int64_t ns) {
    const clockid_t clock = clock_of(means);
    const timespec end = reading_in(clock, ns);
    pthread_mutex_lock(&state_->mutex);
    int error = 0;
    while (state_->count == 0 && error == 0) error = timed_wait(clock, end);
    const bool is_there = state_->count > 0;
    if (is_there) --state_->count;
    pthread_mutex_unlock(&state_->mutex);
    expect(is_there || error == ETIMEDOUT, "a timed wait on a condition variable");
    return is_there;
  }

 private:
  static clockid_t clock_of(const std::string& means) {
    if (means == "pthread_cond_timedwait") return CLOCK_REALTIME;
    if (means == "pthread_cond_clockwait") return CLOCK_MONOTONIC;
    fail_unknown(means);
  }

  int timed_wait(clockid_t clock, const timespec& end) {
    if (clock == CLOCK_REALTIME) {
      return pthread_cond_timedwait(&state_->condition, &state_->mutex, &end);
    }
    return pthread_cond_clockwait(&state_->condition, &state_->mutex, clock, &end);
  }

  Shared<SharedConditionState> state_;
};

class Condition {
 public:
  void post() {
    const std::lock_guard lock(mutex_);
    ++count_;
    condition_.notify_one();
  }

  void wait(const std::string&) {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return count_ > 0; });
    --count_;
  }

  bool wait_for(const std::string& means, std::int64_t ns) {
    std::unique_lock lock(mutex_);
    if (!timed_wait(lock, means, std::chrono::nanoseconds(ns))) return false;
    --count_;
    return true;
  }

 private:
  bool timed_wait(std::unique_lock<std::mutex>& lock, const std::string& means,
                  std::chrono::nanoseconds timeout) {
    const auto is_there = [this] { return count_ > 0; };
    if (means == "wait_for") return condition_.wait_for(lock, timeout, is_there);
    if (means == "wait_until") {
      return condition_.wait_until(lock, std::chrono::system_clock::now() + timeout, is_there);
    }
    fail_unknown(means);
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  int count_ = 0;
};

}  // namespace

std::unique_ptr<Channel> make_eventfd_channel() {
  return std::make_unique<CountedChannel<Eventfd>>();
}
std::unique_ptr<Channel> make_semaphore_channel() {
  return std::make_unique<CountedChannel<Semaphore>>();
}
std::unique_ptr<Channel> make_futex_channel() {
  return std::make_unique<CountedChannel<FutexCounter>>();
}
std::unique_ptr<Channel> make_shared_condition_channel() {
  return std::make_unique<CountedChannel<SharedCondition>>();
}
std::unique_ptr<Channel> make_condition_channel() {
  return std::make_unique<CountedChannel<Condition>>();
}

}  // namespace programs
