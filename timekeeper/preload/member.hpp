// This process's membership in a session: the handshake, the mappings, what fork does to them.
//
// All of it is async-signal-safe and free of the heap, as it runs in constructors, in forked
// children and in signal handlers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/virtual_clock.hpp"
#include "timekeeper/shared/contract.hpp"

namespace warpserve {

inline constexpr std::size_t kMaxPathBytes = 4096;
// With its NUL: what fits into sockaddr_un together with "/control.sock".
inline constexpr std::size_t kMaxFolderBytes = 95;

struct Member {
  const ClockPage* clock_page = nullptr;  // null: not a member
  Board* board = nullptr;
  std::atomic<int> control_fd{-1};
  std::uint32_t pid = 0;
  // Grows with each fork: what a thread keeps of an earlier one is its parent's.
  std::uint32_t generation = 1;
  // A page that the kernel clears in forked children (and not in those of vfork): 1 otherwise.
  volatile std::uint32_t* same_process = nullptr;
  // Idle clock reads that make a busy-wait; 0: none do. The second is for a thread in one.
  std::uint32_t spin_limits[2] = {0, 0};
  char folder[kMaxFolderBytes] = {};
  char library[kMaxPathBytes] = {};  // our own path
};

extern constinit Member member __attribute__((visibility("hidden")));

inline bool is_member() {
  return __builtin_expect(member.clock_page != nullptr, 1);
}
inline VirtualClock virtual_clock() {
  return VirtualClock(*member.clock_page);
}

// ns of the host's CLOCK_MONOTONIC.
inline std::int64_t host_now_ns() {
  timespec now{};
  real().clock_gettime(CLOCK_MONOTONIC, &now);
  return ns_of(now);
}

inline VirtualTime virtual_now() {
  return virtual_clock().now(host_now_ns);
}

// True for the first of its kind in the session.
inline bool count(Warning warning) {
  return member.board->warnings[static_cast<std::size_t>(warning)].fetch_add(1) == 0;
}

class Line;
enum class JoinResult { kJoined, kAlreadyMember, kRefused, kNoTimekeeper };

// Makes the process a member. Where it cannot, `why` says so for the user. Not thread-safe.
JoinResult join(const char* folder, Line& why);

// The Timekeeper writes to `eventfd` when it fires that slot. False: the session is over.
bool give_wake_fd(std::uint32_t slot_index, int eventfd);

// In a forked child: it is a new member. Called by the fork handler, and before any wait because of
// forks by raw system call, which run no handlers.
void become_new_member_after_fork();
inline void notice_fork() {
  if (__builtin_expect(*member.same_process == 0, 0)) become_new_member_after_fork();
}

std::uint32_t current_tid();

}  // namespace warpserve
