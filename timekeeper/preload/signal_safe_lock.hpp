// A lock that signal handlers may take, too: its holder has all signals blocked.
#pragma once

#include <signal.h>

#include <cstdint>

#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/shared/sync.hpp"

namespace warpserve {

class SignalSafeLock {
 public:
  void lock() {
    while (!word_.compare_exchange(0, 1)) NativeSync::wait(word_, 1);
  }
  void unlock() {
    word_.store(0);
    NativeSync::wake(word_, 1);
  }
  // In a forked child: whoever held it is not there.
  void forget_owner() { word_.store(0); }

 private:
  SharedAtomic<std::uint32_t> word_;
};

class SignalsBlocked {
 public:
  SignalsBlocked() {
    const std::uint64_t all = ~std::uint64_t{0};
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old_mask_, sizeof all);
  }
  ~SignalsBlocked() {
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old_mask_, nullptr, sizeof old_mask_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  std::uint64_t old_mask_ = 0;
};

class SignalSafeGuard {
 public:
  explicit SignalSafeGuard(SignalSafeLock& lock) : lock_(lock) { lock_.lock(); }
  ~SignalSafeGuard() { lock_.unlock(); }
  SignalSafeGuard(const SignalSafeGuard&) = delete;
  SignalSafeGuard& operator=(const SignalSafeGuard&) = delete;

 private:
  SignalsBlocked blocked_;  // first in, last out
  SignalSafeLock& lock_;
};

}  // namespace warpserve
