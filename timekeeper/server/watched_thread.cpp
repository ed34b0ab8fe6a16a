#include "timekeeper/server/watched_thread.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "timekeeper/server/host_wait.hpp"

namespace warpserve {
namespace {

bool is_gone(ssize_t error) {
  return error == -ESRCH || error == -ENOENT;
}

BusyReason reason_of(char state) {
  switch (state) {
    case 'T':
    case 't':
      return BusyReason::kStopped;
    case 'D':
      return BusyReason::kUninterruptible;
    default:
      return BusyReason::kCanRun;
  }
}

// A zombie, a main thread with threads that live on too: never runs again.
bool is_dead(char state) {
  return state == 'Z' || state == 'X';
}

}  // namespace

WatchedThread::WatchedThread(pid_t tid, Kind kind) : tid_(tid), kind_(kind) {}

// The bytes read, or -errno. Opens the file the first time.
ssize_t WatchedThread::read(ProcFile& file, int task_dir, const char* name,
                            std::span<char> buffer) const {
  if (!file.is_open()) {
    std::array<char, 32> path;
    std::snprintf(path.data(), path.size(), "%d/%s", tid_, name);
    if (const int error = file.open(task_dir, path.data()); error != 0) return error;
  }
  return file.read(buffer);
}

Counters WatchedThread::read_counters(int task_dir) {
  std::array<char, sizeof(counters_)> text;
  const ssize_t count = read(schedstat_, task_dir, "schedstat", text);
  if (count < 0) return failed(count) == Sight::kGone ? Counters::kGone : Counters::kUnreadable;
  const auto bytes = static_cast<std::size_t>(count);
  if (bytes == counters_bytes_ && std::memcmp(text.data(), counters_.data(), bytes) == 0) {
    return Counters::kSame;
  }
  std::memcpy(counters_.data(), text.data(), bytes);
  counters_bytes_ = static_cast<std::uint8_t>(bytes);
  verified_ = false;
  heat_ = kHotLooks;
  return Counters::kChanged;
}

Sight WatchedThread::look(int task_dir, const ProgramImage* member_image) {
  if (!verified_) return verify(task_dir, member_image);
  WchanBuffer wchan;
  if (const Sight sight = read_wchan(task_dir, wchan); sight != Sight::kAsleep) return sight;
  return wchan.shows_asleep() ? Sight::kAsleep : verify(task_dir, member_image);
}

// The kind of sleep first, then that it sleeps: in the other order the kind could be what a thread
// shows that was woken in between and is still on its way into the next sleep.
Sight WatchedThread::verify(int task_dir, const ProgramImage* member_image) {
  verified_ = false;
  TaskStat stat;
  if (const Sight sight = read_stat(task_dir, stat); sight != Sight::kAsleep) return sight;
  if (is_dead(stat.state)) return Sight::kAsleep;
  if (stat.state != 'S' && stat.state != 'D') return busy(reason_of(stat.state));

  WchanBuffer wchan;
  if (const Sight sight = read_wchan(task_dir, wchan); sight != Sight::kAsleep) return sight;
  const bool is_member =
      kind_ == Kind::kKernel || (member_image != nullptr && *member_image == stat.image);
  const bool needs_call = stat.state == 'D' || !is_member;
  BlockedCall call;
  if (needs_call || !wchan.shows_asleep()) {
    if (const Sight sight = read_call(task_dir, call); sight != Sight::kAsleep) return sight;
  }
  if (!wchan.shows_asleep() && kind_ == Kind::kUser) {
    // Reading the call has completed a delayed dequeue. Still "0": it is being woken.
    if (const Sight sight = read_wchan(task_dir, wchan); sight != Sight::kAsleep) return sight;
    if (!wchan.shows_asleep()) return busy(BusyReason::kCanRun);
  }
  if (stat.state == 'D' && !waits_for_vfork_child(call, wchan.name())) {
    return busy(BusyReason::kUninterruptible);
  }
  if (!is_member && ends_on_host_time(call, wchan.name())) return busy(BusyReason::kHostSleep);
  verified_ = true;
  return Sight::kAsleep;
}

// kAsleep: `wchan` is filled.
Sight WatchedThread::read_wchan(int task_dir, WchanBuffer& wchan) {
  const ssize_t count = read(wchan_, task_dir, "wchan", wchan.bytes);
  if (count < 0) return failed(count);
  wchan.size = static_cast<std::size_t>(count);
  return Sight::kAsleep;
}

// kAsleep: `stat` is filled.
Sight WatchedThread::read_stat(int task_dir, TaskStat& stat) {
  std::array<char, 1024> buffer;
  const ssize_t count = read(stat_, task_dir, "stat", buffer);
  if (count < 0) return failed(count);
  auto parsed = parse_task_stat({buffer.data(), static_cast<std::size_t>(count)});
  if (!parsed) return busy(BusyReason::kUnreadable);
  stat = std::move(*parsed);
  state_ = stat.state;
  comm_ = stat.comm;
  return Sight::kAsleep;
}

// kAsleep: the thread was off the run queue, and `call` is filled.
Sight WatchedThread::read_call(int task_dir, BlockedCall& call) {
  std::array<char, 256> buffer;
  const ssize_t count = read(syscall_, task_dir, "syscall", buffer);
  if (count < 0) {
    // Without privileges kernel threads show stat only. It will do for those that handle soft
    // interrupts: between S and sleep they can't be preempted (kernel/smpboot.c, but for the few
    // instructions before preempt_disable).
    if (kind_ == Kind::kKernel && !is_gone(count)) return Sight::kAsleep;
    return failed(count);
  }
  const auto parsed = parse_blocked_call({buffer.data(), static_cast<std::size_t>(count)});
  if (!parsed) return busy(BusyReason::kCanRun);
  call = *parsed;
  return Sight::kAsleep;
}

Sight WatchedThread::busy(BusyReason reason) {
  reason_ = reason;
  return Sight::kBusy;
}

Sight WatchedThread::failed(ssize_t error) {
  if (is_gone(error)) return Sight::kGone;
  return busy(error == -EINTR ? BusyReason::kCanRun : BusyReason::kUnreadable);
}

}  // namespace warpserve
