#include "timekeeper/server/process_watch.hpp"

#include <algorithm>

#include "timekeeper/server/errors.hpp"

namespace warpserve {
namespace {

// A tree in which somebody runs in each of so many passes is at work; its owner listens for the
// culprit instead of looking on.
constexpr int kMaxPasses = 4;

const ProgramImage* image_of(const WatchedProcess& process) {
  return process.member_image ? &*process.member_image : nullptr;
}

std::optional<TaskStat> read_stat(int directory, const std::string& path) {
  const auto text = read_proc_file(directory, path);
  return text ? parse_task_stat(*text) : std::nullopt;
}

std::vector<std::string> split_at_nul(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    words.emplace_back(text.c_str() + begin);
    begin += words.back().size() + 1;
  }
  return words;
}

ThreadPicture picture_of(const WatchedProcess& process, pid_t tid) {
  const std::string folder = std::to_string(tid);
  ThreadPicture picture;
  picture.tid = tid;
  if (auto stat = read_stat(process.task_dir.get(), folder + "/stat")) {
    picture.comm = std::move(stat->comm);
    picture.state = stat->state;
  }
  picture.wchan = read_proc_file(process.task_dir.get(), folder + "/wchan").value_or("");
  return picture;
}

ProcessPicture picture_of(const WatchedProcess& process) {
  const int task_dir = process.task_dir.get();
  ProcessPicture picture;
  picture.pid = process.pid;
  picture.parent = process.parent;
  if (auto stat = read_stat(task_dir, "../stat")) {
    picture.parent = stat->parent;
    picture.is_member = process.member_image == stat->image;
    picture.comm = std::move(stat->comm);
  }
  picture.command_line = split_at_nul(read_proc_file(task_dir, "../cmdline").value_or(""));
  for (const WatchedThread& thread : process.threads) {
    picture.threads.push_back(picture_of(process, thread.tid()));
  }
  return picture;
}

const char* text_of(BusyReason reason) {
  switch (reason) {
    case BusyReason::kCanRun:
      return "can run";
    case BusyReason::kRanDuringLook:
      return "ran while the session was looked at";
    case BusyReason::kUninterruptible:
      return "waits in the kernel for a disk, a page or a lock";
    case BusyReason::kStopped:
      return "is stopped, by SIGSTOP or a debugger: continue it";
    case BusyReason::kHostSleep:
      return "is not a member (static binary?) and sleeps on host time";
    case BusyReason::kUnreadable:
      return "may not be looked at: run it as the Timekeeper's user, not set-user-ID";
    case BusyReason::kCreates:
      return "creates processes faster than they can be listed";
  }
  return "is busy";
}

}  // namespace

std::string describe(const Busy& busy) {
  return busy.comm + " (process " + std::to_string(busy.pid) + ", thread " +
         std::to_string(busy.tid) + ", state " + busy.state + ") " + text_of(busy.reason);
}

rlimit raise_descriptor_limit() {
  rlimit former{};
  if (getrlimit(RLIMIT_NOFILE, &former) != 0) throw os_error("cannot read the descriptor limit");
  const rlimit raised{.rlim_cur = former.rlim_max, .rlim_max = former.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0) throw os_error("cannot raise the descriptor limit");
  return former;
}

Look ProcessWatch::look() {
  if (last_culprit_is_still_busy()) return Look{culprit_};
  for (int i = 0; i < kMaxPasses; ++i) {
    refresh_hot_counters();
    const bool all_listed = tree_.list_the_new();
    const Pass outcome = pass();
    forget_the_gone();
    if (outcome == Pass::kBusy) return Look{culprit_};
    if (!all_listed) {
      culprit_.reason = BusyReason::kCreates;
      return Look{culprit_};
    }
    if (outcome == Pass::kQuiet) {
      cool_down();
      culprit_ = Busy{};
      return Look{};
    }
  }
  return Look{culprit_};
}

bool ProcessWatch::last_culprit_is_still_busy() {
  WatchedProcess* process = tree_.find(culprit_.pid);
  if (process == nullptr) return false;
  const auto thread = std::ranges::find(process->threads, culprit_.tid, &WatchedThread::tid);
  if (thread == process->threads.end()) return false;
  if (thread->look(process->task_dir.get(), image_of(*process)) != Sight::kBusy) return false;
  blame(*process, *thread, thread->reason());
  return true;
}

// The A of threads that are known to run now and then.
void ProcessWatch::refresh_hot_counters() {
  for (WatchedProcess& process : tree_.processes()) {
    for (WatchedThread& thread : process.threads) {
      if (thread.is_hot()) note_counters(process, thread);
    }
  }
  forget_the_gone();
}

// Those that ran lately first: they are the likeliest to run now.
ProcessWatch::Pass ProcessWatch::pass() {
  const Pass hot = pass_over(true);
  if (hot == Pass::kBusy) return hot;
  return std::max(hot, pass_over(false));
}

ProcessWatch::Pass ProcessWatch::pass_over(bool hot) {
  Pass outcome = Pass::kQuiet;
  for (WatchedProcess& process : tree_.processes()) {
    for (WatchedThread& thread : process.threads) {
      if (thread.is_hot() != hot) continue;
      outcome = std::max(outcome, look_at(process, thread));
      if (outcome == Pass::kBusy) return outcome;
    }
  }
  return outcome;
}

ProcessWatch::Pass ProcessWatch::look_at(WatchedProcess& process, WatchedThread& thread) {
  switch (thread.look(process.task_dir.get(), image_of(process))) {
    case Sight::kAsleep:
      return note_counters(process, thread);
    case Sight::kGone:
      note_gone(process, thread);
      return Pass::kMoved;
    case Sight::kBusy:
      break;
  }
  blame(process, thread, thread.reason());
  return Pass::kBusy;
}

ProcessWatch::Pass ProcessWatch::note_counters(WatchedProcess& process, WatchedThread& thread) {
  switch (thread.read_counters(process.task_dir.get())) {
    case Counters::kSame:
      return Pass::kQuiet;
    case Counters::kGone:
      note_gone(process, thread);
      return Pass::kMoved;
    case Counters::kUnreadable:
      blame(process, thread, thread.reason());
      return Pass::kBusy;
    case Counters::kChanged:
      break;
  }
  process.has_run = true;
  blame(process, thread, BusyReason::kRanDuringLook);
  return Pass::kMoved;
}

void ProcessWatch::note_gone(WatchedProcess& process, const WatchedThread& thread) {
  gone_.emplace_back(process.pid, thread.tid());
  blame(process, thread, BusyReason::kRanDuringLook);
}

void ProcessWatch::blame(const WatchedProcess& process, const WatchedThread& thread,
                         BusyReason reason) {
  culprit_ = Busy{.pid = process.pid,
                  .tid = thread.tid(),
                  .comm = thread.comm(),
                  .state = thread.state(),
                  .reason = reason};
}

void ProcessWatch::forget_the_gone() {
  if (gone_.empty()) return;
  tree_.forget(gone_);
  vanished_.insert(vanished_.end(), gone_.begin(), gone_.end());
  gone_.clear();
}

void ProcessWatch::cool_down() {
  for (WatchedProcess& process : tree_.processes()) {
    if (!process.has_run) process.listing.was_asleep = true;
    for (WatchedThread& thread : process.threads) thread.cool();
  }
}

bool ProcessWatch::joined(pid_t pid) {
  if (tree_.find(pid) == nullptr) tree_.list_everything();
  WatchedProcess* process = tree_.find(pid);
  if (process == nullptr) return false;
  const auto stat = read_stat(process->task_dir.get(), "../stat");
  if (!stat) return false;
  process->member_image = stat->image;
  doubt(*process);
  return true;
}

void ProcessWatch::left(pid_t pid) {
  WatchedProcess* process = tree_.find(pid);
  if (process == nullptr) return;
  process->member_image.reset();
  doubt(*process);
}

void ProcessWatch::doubt(WatchedProcess& process) {
  for (WatchedThread& thread : process.threads) thread.doubt();
}

std::vector<ProcessPicture> ProcessWatch::picture() const {
  std::vector<ProcessPicture> pictures;
  for (const WatchedProcess& process : tree_.processes()) {
    if (process.is_in_session()) pictures.push_back(picture_of(process));
  }
  return pictures;
}

std::size_t ProcessWatch::thread_count() const {
  std::size_t count = 0;
  for (const WatchedProcess& process : tree_.processes()) {
    if (process.is_in_session()) count += process.threads.size();
  }
  return count;
}

}  // namespace warpserve
