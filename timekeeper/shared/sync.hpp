// The atomics and futexes of the shared-memory protocol, all in one place, so that the same
// protocol source runs natively and under the model checker (tests/native/model_checker.hpp).
//
// A `Sync` policy supplies `Atomic<T>` (load, store, exchange, compare_exchange, fetch_add: all
// sequentially consistent), the futex operations `wait` and `wake`, and `broken`, which ends the
// process where a word holds what the protocol rules out. All words are shared between processes,
// so no futex is FUTEX_PRIVATE.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace warpserve {

template <class T>
class SharedAtomic {
 public:
  static_assert(std::atomic<T>::is_always_lock_free);
  T load() const { return value_.load(std::memory_order_seq_cst); }
  void store(T value) { value_.store(value, std::memory_order_seq_cst); }
  T exchange(T value) { return value_.exchange(value, std::memory_order_seq_cst); }
  bool compare_exchange(T expected, T desired) {
    return value_.compare_exchange_strong(expected, desired, std::memory_order_seq_cst);
  }
  T fetch_add(T value) { return value_.fetch_add(value, std::memory_order_seq_cst); }

 private:
  std::atomic<T> value_{};
};

// Raw system calls only: the members' library interposes libc's own waits and clocks.
struct NativeSync {
  template <class T>
  using Atomic = SharedAtomic<T>;

  // Sleeps while `*word == expected`, at most until `host_deadline` (CLOCK_MONOTONIC) where one is
  // given. Returns 0 when woken, else EAGAIN, EINTR or ETIMEDOUT.
  static int wait(const SharedAtomic<std::uint32_t>& word, std::uint32_t expected,
                  const timespec* host_deadline = nullptr) {
    const long rc = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, host_deadline, nullptr,
                            FUTEX_BITSET_MATCH_ANY);
    return rc == 0 ? 0 : errno;
  }

  static void wake(const SharedAtomic<std::uint32_t>& word, int count) {
    syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
  }

  [[noreturn]] static void broken(std::string_view what) {
    constexpr std::string_view kPrefix = "warpserve: broken wake-up protocol: ";
    syscall(SYS_write, STDERR_FILENO, kPrefix.data(), kPrefix.size());
    syscall(SYS_write, STDERR_FILENO, what.data(), what.size());
    syscall(SYS_write, STDERR_FILENO, "\n", 1);
    std::abort();
  }
};

static_assert(sizeof(SharedAtomic<std::uint32_t>) == 4);
static_assert(sizeof(SharedAtomic<std::int64_t>) == 8);

}  // namespace warpserve
