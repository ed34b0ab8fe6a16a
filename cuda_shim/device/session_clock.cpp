#include "cuda_shim/device/session_clock.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

#include "timekeeper/preload/warpserve.h"

namespace warpserve::gpu {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::int64_t monotonic_ns() {
  timespec reading{};
  clock_gettime(CLOCK_MONOTONIC, &reading);
  return reading.tv_sec * kNsPerSecond + reading.tv_nsec;
}

timespec timespec_of(std::int64_t ns) {
  return {.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
}

// A function of the member's library, or null where it isn't loaded. Looked up rather than linked:
// programs run without a session, too.
template <class Function>
Function* member_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// The waits are libc's, on CLOCK_MONOTONIC, which the member's library makes virtual together with
// that clock. They are an observer's waits: a thread that waits for a GPU need not be waited for
// while it does not, which is what an actor's slot would ask of the barrier.
class ProcessClock final : public SessionClock {
 public:
  ProcessClock() {
    const auto is_member = member_function<decltype(ws_is_member)>("ws_is_member");
    if (is_member != nullptr && is_member() == 1) {
      virtual_now_ns_ = member_function<decltype(ws_now_ns)>("ws_now_ns");
      monotonic_base_ns_ =
          member_function<decltype(ws_monotonic_base_ns)>("ws_monotonic_base_ns")();
    } else {
      monotonic_base_ns_ = monotonic_ns();
    }
  }

  VirtualTime now() override {
    if (virtual_now_ns_ != nullptr) return VirtualTime::from_ns(virtual_now_ns_());
    return VirtualTime::from_ns(monotonic_ns() - monotonic_base_ns_);
  }

  void wait_until(VirtualTime target) override {
    if (target <= now()) return;
    const timespec reading = reading_at(target);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &reading, nullptr) == EINTR) {
    }
  }

  bool wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                  VirtualTime target) override {
    const timespec reading = reading_at(target);
    return pthread_cond_clockwait(condition.native_handle(), lock.mutex()->native_handle(),
                                  CLOCK_MONOTONIC, &reading) == ETIMEDOUT;
  }

  void note_idle_poll() override { monotonic_ns(); }

 private:
  timespec reading_at(VirtualTime target) const {
    const VirtualTime reading = target.saturating_add(VirtualDuration::from_ns(monotonic_base_ns_));
    return timespec_of(reading.ns());
  }

  decltype(ws_now_ns)* virtual_now_ns_ = nullptr;  // outside a session null
  std::int64_t monotonic_base_ns_ = 0;             // CLOCK_MONOTONIC at virtual time 0
};

}  // namespace

SessionClock& process_clock() {
  // Never destroyed: threads may still wait for the GPU while the process exits.
  static auto& clock = *new ProcessClock;
  return clock;
}

}  // namespace warpserve::gpu
