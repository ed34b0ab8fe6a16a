#include "timekeeper/preload/idle_pollers.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <string_view>

namespace warpserve {

namespace {

// How late such a thread may notice that it is to end: its owner waits for that.
constexpr int kPatienceMs = 1'000;

// By the function that they wait in, as the library exports it.
constexpr std::string_view kIdlePollers[] = {
    // gloo/transport/tcp/loop.cc: epoll_wait(…, 10), as long as the loop has not been shut down.
    "_ZN4gloo9transport3tcp4Loop3runEv",
};

bool is_idle_poller(const void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_sname == nullptr) return false;
  return std::ranges::find(kIdlePollers, std::string_view(info.dli_sname)) !=
         std::end(kIdlePollers);
}

}  // namespace

int patient_timeout_ms(int timeout_ms, const void* caller) {
  if (timeout_ms <= 0) return timeout_ms;
  static thread_local const void* last_caller = nullptr;
  static thread_local bool last_is_idle_poller = false;
  if (caller != last_caller) {
    last_is_idle_poller = is_idle_poller(caller);
    last_caller = caller;
  }
  return last_is_idle_poller ? std::max(timeout_ms, kPatienceMs) : timeout_ms;
}

}  // namespace warpserve
