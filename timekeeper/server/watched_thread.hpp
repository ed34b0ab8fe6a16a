// One thread as the kernel shows it: does it sleep, and has it run?
//
// Four files in /proc answer, and each alone would be wrong:
//
//   schedstat  time on a CPU, time in the queue, times scheduled. A thread that slept, ran and
//              sleeps again shows other numbers: a change means "has run". It lags while a
//              thread runs, so no change does not mean "does not run".
//   wchan      the function that it sleeps in, read under the thread's wake-up lock: a name
//              only if it is off the run queue and nobody is waking it (kernel/sched/core.c,
//              get_wchan). "0" otherwise, and for a thread whose dequeueing is delayed.
//   stat       the kind of sleep. Not enough by itself: a thread sets its state to S before it
//              looks for the last time whether it must sleep at all, and can be preempted there.
//   syscall    read only if the kernel finds the thread off its run queue; completes a delayed
//              dequeue (wait_task_inactive). Says what a thread is blocked in, with arguments.
//
// The kind of sleep cannot change while a thread does not run, so it is read again only when the
// counters have changed: a thread that stays asleep costs one wchan and one schedstat.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "timekeeper/server/procfs.hpp"

namespace warpserve {

enum class BusyReason : std::uint8_t {
  kCanRun,           // runs, waits for a CPU, or is being woken
  kRanDuringLook,    // sleeps now, but ran while the others were looked at
  kUninterruptible,  // state D: waits for a disk, a page, a lock in the kernel
  kStopped,          // SIGSTOP or a debugger
  kHostSleep,        // not a member, sleeps with a timeout on the host's clock
  kUnreadable,       // not ours to look at
  kCreates,          // creates processes faster than they can be listed
};

enum class Sight : std::uint8_t { kAsleep, kBusy, kGone };
enum class Counters : std::uint8_t { kSame, kChanged, kGone, kUnreadable };

class WatchedThread {
 public:
  enum class Kind : std::uint8_t { kUser, kKernel };

  explicit WatchedThread(pid_t tid, Kind kind = Kind::kUser);

  // Compares with what the previous call read; reason() says why after kUnreadable.
  // `task_dir`: /proc/P/task, here and below.
  Counters read_counters(int task_dir);

  // `member_image`: the program whose waits are virtual, or null for a process that is no member.
  // A sound answer needs read_counters() == kSame after it, see ProcessWatch.
  Sight look(int task_dir, const ProgramImage* member_image);

  // Makes the next look read the kind of sleep again.
  void doubt() { verified_ = false; }

  pid_t tid() const { return tid_; }
  const std::string& comm() const { return comm_; }
  // Of the last look: valid after kBusy, '?' where it could not be read.
  char state() const { return state_; }
  BusyReason reason() const { return reason_; }

  // Threads that ran lately are looked at first. Counts down with each look without a change.
  bool is_hot() const { return heat_ > 0; }
  void cool() { heat_ = heat_ > 0 ? static_cast<std::uint8_t>(heat_ - 1) : heat_; }

 private:
  static constexpr std::uint8_t kHotLooks = 8;

  struct WchanBuffer {
    std::array<char, 64> bytes;
    std::size_t size = 0;
    std::string_view name() const { return {bytes.data(), size}; }
    bool shows_asleep() const { return size > 0 && name() != "0"; }
  };

  // kAsleep from these: go on.
  Sight read_stat(int task_dir, TaskStat& stat);
  Sight read_wchan(int task_dir, WchanBuffer& wchan);
  Sight read_call(int task_dir, BlockedCall& call);

  Sight verify(int task_dir, const ProgramImage* member_image);
  Sight busy(BusyReason reason);
  Sight failed(ssize_t error);
  ssize_t read(ProcFile& file, int task_dir, const char* name, std::span<char> buffer) const;

  pid_t tid_;
  Kind kind_;
  bool verified_ = false;  // the kind of sleep that began at counters_ is known to be S
  std::uint8_t heat_ = kHotLooks;
  char state_ = '?';
  BusyReason reason_ = BusyReason::kCanRun;
  std::uint8_t counters_bytes_ = 0;
  std::array<char, 63> counters_{};
  std::string comm_;
  ProcFile wchan_;
  ProcFile schedstat_;
  ProcFile stat_;
  ProcFile syscall_;
};

}  // namespace warpserve
