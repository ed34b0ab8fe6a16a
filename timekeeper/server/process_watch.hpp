// *Settle*: does every thread of the session sleep, and has none run between two looks?
//
// Watched are all descendants of the Timekeeper, which is their child subreaper, so that orphans
// stay in the tree; processes that joined from elsewhere, with their descendants; and the kernel's
// threads that deliver what loopback holds back when the CPUs are busy (ksoftirqd/N,
// backlog_napi/N). Of the Timekeeper's own threads those are watched that serve members: a member
// that sleeps until it gets an answer is not at rest.
//
// Why a look is sound. Let T be an instant after the run counters of all known threads were read
// (A). After T each thread's state is read, then its counters again (B). A thread that could run
// at T is seen able to run; or it ran and went to sleep before its state was read, and going to
// sleep adds to its run time: B differs from A. If all sleep and all B equal A, nobody could run
// at T. Only a running thread wakes another, so nobody has been able to run since.
//   What "asleep" means for one thread: watched_thread.hpp.
//   A may be as old as it likes. For a thread that has not run since the previous look it is that
// look's B, so an idle thread is read once a look, and one that ran lately twice.
//   Threads that are not known yet were created by one that ran: they are listed between A and T
// (process_tree.hpp), and a known creator that had not been seen to run makes B differ from A.
//
// What settle cannot see (docs/limitations.md): timers that processes which are no members have
// armed in the kernel, and work that the kernel does in workers of its own (pseudo-terminals,
// disks).
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "timekeeper/server/process_tree.hpp"
#include "timekeeper/server/shared_loop.hpp"
#include "timekeeper/server/watched_thread.hpp"

namespace warpserve {

// Who keeps the session from being settled.
struct Busy {
  pid_t pid = 0;
  pid_t tid = 0;
  std::string comm;
  char state = '?';  // as in /proc/P/stat
  BusyReason reason = BusyReason::kCanRun;
};

// "python3 (process 12, thread 14, state R) can run"
std::string describe(const Busy& busy);

struct Look {
  std::optional<Busy> busy;
  bool settled() const { return !busy.has_value(); }
};

// For `warpserve status`.
struct ThreadPicture {
  pid_t tid = 0;
  std::string comm;
  char state = '?';
  std::string wchan;  // the kernel function that it sleeps in; "0" if it can run
};
struct ProcessPicture {
  pid_t pid = 0;
  pid_t parent = 0;
  bool is_member = false;
  std::string comm;
  std::vector<std::string> command_line;
  std::vector<ThreadPicture> threads;
};

// A watch holds two descriptors a thread, up to four for one that ran. Raises the soft limit to
// the hard one and returns what it was: children are to get that back before exec, because a limit
// above 1024 breaks programs that use select().
rlimit raise_descriptor_limit();

// For one thread at a time.
class ProcessWatch {
 public:
  // Watches the descendants of `timekeeper`. Throws UsageError where the kernel lacks what a look
  // needs.
  explicit ProcessWatch(pid_t timekeeper, ChildrenFrom children = ChildrenFrom::kBestOfKernel)
      : tree_(timekeeper, children) {}

  // Throws UsageError when out of descriptors.
  Look look();

  // A process from outside of the tree joins, or is watched no longer. Its orphans leave the
  // session, as they do not become the Timekeeper's children. False if there is no such process.
  bool add_root(pid_t pid) { return tree_.add_outside(pid); }
  void remove_root(pid_t pid) { tree_.remove_outside(pid); }

  // A thread of the Timekeeper that answers members, with `tid` in the Timekeeper's process. What
  // it has handed over to the caller is for the caller to look after, once a look has found all
  // asleep. False if there is no such thread.
  bool watch_own_thread(pid_t tid) { return tree_.add_own_thread(tid); }

  // The process said hello and waits for the answer: its timed waits are virtual, until it leaves
  // or becomes another program. False if it is not in the tree.
  bool joined(pid_t pid);
  void left(pid_t pid);

  // The threads, as (pid, tid), that have ended since the last call.
  std::vector<std::pair<pid_t, pid_t>> take_vanished() { return std::exchange(vanished_, {}); }

  // As they are now, with threads and processes that the last look knew.
  std::vector<ProcessPicture> picture() const;

  std::size_t thread_count() const;

 private:
  enum class Pass : std::uint8_t { kQuiet, kMoved, kBusy };
  struct ThreadSeen {
    WatchedProcess* process;
    WatchedThread* thread;
    Sight sight = Sight::kBusy;
    Counters counters = Counters::kChanged;  // read if it sleeps
    std::exception_ptr failure;
  };

  bool last_culprit_is_still_busy();
  void refresh_hot_counters();
  Pass pass();
  Pass pass_over(std::vector<ThreadSeen>& threads);
  static void look_at(ThreadSeen& seen) noexcept;
  Pass note(const ThreadSeen& seen);
  Pass note_counters(WatchedProcess& process, const WatchedThread& thread, Counters counters);
  void note_gone(WatchedProcess& process, const WatchedThread& thread);
  void blame(const WatchedProcess& process, const WatchedThread& thread, BusyReason reason);
  void forget_the_gone();
  void cool_down();
  void doubt(WatchedProcess& process);

  std::optional<SharedLoop> shared_loop_;  // once there are enough threads for it
  ProcessTree tree_;
  Busy culprit_;
  std::vector<std::pair<pid_t, pid_t>> gone_;  // in this look
  std::vector<std::pair<pid_t, pid_t>> vanished_;
};

}  // namespace warpserve
