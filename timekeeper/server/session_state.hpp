// The state of a session as a reader wants it: `warpserve status`, the stall report, the summary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "timekeeper/core/core.hpp"
#include "timekeeper/server/board_link.hpp"
#include "timekeeper/shared/contract.hpp"

namespace warpserve {

struct ThreadState {
  std::int64_t tid;
  std::string name;
  char state;      // as in /proc/P/stat
  std::string in;  // the kernel function that it sleeps in; "0" if it can run
};

struct MemberState {
  std::int64_t id;  // pid on this host, or the number of a remote member
  std::string name;
  bool virtual_clock;  // false: runs on the host's clock (a static binary, say)
  bool remote;
  std::vector<ThreadState> threads;  // none of a remote member
};

struct BusyThread {
  std::int64_t pid;
  std::int64_t tid;
  std::string name;
  std::string why;  // its state, in words
};

// A member that a signal has killed (T9).
struct KilledMember {
  std::int64_t id;
  std::string name;
  int signal;
  VirtualTime at;
};

struct SessionState {
  ClockMode mode;
  GuardKind guard;
  VirtualTime now;
  HostDuration host_elapsed;
  std::uint64_t advances;
  std::uint64_t looks;
  double advances_per_s;  // of host time, over about the last second
  Blocker blocker;
  std::optional<BusyThread> busy;
  std::vector<MemberState> members;
  std::vector<WaitingThread> waiting;
  std::vector<KilledMember> killed;
  std::vector<std::string> holders;     // who keeps time from advancing
  std::vector<std::string> roll_calls;  // of a stall: which ranks wait for which
  std::vector<std::pair<std::string, std::uint32_t>> warnings;
  std::uint64_t audits;
  std::uint64_t audit_violations;
  std::vector<std::string> first_violations;
  std::string trace_failure;
  std::string ended_because;  // empty while it runs
  bool stalled = false;
  std::uint64_t ended_members = 0;  // processes that had to be ended
};

const char* word_for(ClockMode mode);
const char* word_for(GuardKind guard);
const char* word_for(Blocker blocker);
const char* word_for(Warning warning);

std::string to_json(const SessionState& state);

// Who waits for what: for people, several lines.
std::string stall_report(const SessionState& state);

}  // namespace warpserve
