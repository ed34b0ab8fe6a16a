#include "cuda_shim/time/host_functions.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <utility>

namespace warpserve::gpu {
namespace {

thread_local bool running_host_function = false;

}  // namespace

struct HostFunctions::State {
  struct Job {
    std::function<void()> function;
    CompletionSource end;
  };
  // When it is due, then in order of arrival.
  using Place = std::pair<VirtualTime, std::uint64_t>;

  explicit State(SessionClock& session_clock) : clock(session_clock) {}

  SessionClock& clock;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Place, Job> jobs;
  std::uint64_t arrivals = 0;
  bool stopped = false;

  void run_jobs() {
    std::unique_lock lock(mutex);
    while (!stopped) {
      if (jobs.empty()) {
        changed.wait(lock);
      } else if (first_is_due(lock)) {
        run_first(lock);
      }
    }
  }

  bool first_is_due(std::unique_lock<std::mutex>& lock) {
    const VirtualTime due = jobs.begin()->first.first;
    if (due <= clock.now()) return true;
    return clock.wait_until(changed, lock, due) && !stopped;
  }

  void run_first(std::unique_lock<std::mutex>& lock) {
    const auto first = jobs.extract(jobs.begin());
    lock.unlock();
    running_host_function = true;
    first.mapped().function();
    running_host_function = false;
    first.mapped().end.resolve(std::max(first.key().first, clock.now()));
    lock.lock();
  }
};

HostFunctions::HostFunctions(SessionClock& clock) : state_(std::make_shared<State>(clock)) {}

HostFunctions::~HostFunctions() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  state_->changed.notify_all();
  if (!thread_.joinable()) return;
  // What a host function owned may own this.
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void HostFunctions::run_at(VirtualTime instant, std::function<void()> function,
                           CompletionSource end) {
  {
    const std::lock_guard lock(start_mutex_);
    if (!thread_.joinable()) thread_ = std::thread([state = state_] { state->run_jobs(); });
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.emplace(State::Place(instant, state_->arrivals++),
                         State::Job{std::move(function), std::move(end)});
  }
  state_->changed.notify_all();
}

bool HostFunctions::running_in_this_thread() {
  return running_host_function;
}

}  // namespace warpserve::gpu
