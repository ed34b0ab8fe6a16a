// What a thread keeps: its slot, its eventfd, and how long it has been idle without waiting.
#pragma once

#include <cstdint>
#include <optional>

#include "timekeeper/preload/member.hpp"
#include "timekeeper/shared/slot.hpp"

namespace warpserve {

struct ThreadState {
  std::uint32_t generation = 0;   // of the process (Member::generation) that the rest belongs to
  std::uint32_t tid = 0;          // 0: not asked yet
  std::optional<SlotOwner> slot;  // claimed at the first timed wait
  int wake_fd = -1;               // given to the Timekeeper for `slot`
  bool slot_in_use = false;       // a signal handler that waits must take another one

  // Busy-waits: idle indications since virtual time moved or the thread blocked.
  std::uint32_t idle_count = 0;
  bool in_busy_wait = false;   // charged, and has not blocked of itself since
  long blocked_at_charge = 0;  // how often it had blocked when it was last charged
  std::int64_t next_charge_ns = 1;
  std::int64_t seen_ns = 0;  // the clock's value at the last indication
};

extern thread_local constinit ThreadState this_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Once a process: has threads give back their slots when they exit.
bool watch_thread_exits();

// This thread's state, fresh after a fork.
ThreadState& own_state();

// To be called last before a wait without a deadline.
void ring_before_blocking();

// The thread's slot for the length of one wait, or another one where a signal handler has
// interrupted such a wait.
class SlotLease {
 public:
  // `label`: what the thread waits in, for the user; a string literal.
  explicit SlotLease(const char* label);
  ~SlotLease();
  SlotLease(const SlotLease&) = delete;
  SlotLease& operator=(const SlotLease&) = delete;

  SlotOwner& slot() { return *slot_; }
  // The eventfd that firing the slot writes to; -1 where the session is over.
  int wake_fd();
  // The program has closed it; the next `wake_fd` makes another.
  void lose_wake_fd();

 private:
  const bool nested_;
  ThreadState& thread_;
  std::optional<SlotOwner> nested_slot_;
  int nested_wake_fd_ = -1;
  std::optional<SlotOwner>& slot_;
  int& wake_fd_;
};

// A slot of the given kind, or the end of the process where the board is full.
SlotOwner claim_slot(SlotKind kind);
std::uint32_t slot_index(const SlotOwner& slot);
void set_label(const SlotOwner& slot, const char* label);

}  // namespace warpserve
