#include "timekeeper/server/process_watch.hpp"

#include <algorithm>

#include "timekeeper/server/errors.hpp"

namespace warpserve {
namespace {

// A tree in which somebody runs in each of so many passes is at work; its owner listens for the
// culprit instead of looking on.
constexpr int kMaxPasses = 4;

// Below that, waking the second thread takes as long as it saves.
constexpr std::size_t kWorthSharing = 16;

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
      if (!thread.is_hot()) continue;
      note_counters(process, thread, thread.read_counters(process.task_dir.get()));
    }
  }
  forget_the_gone();
}

// Those that ran lately first: they are the likeliest to run now, and one that does ends the look.
ProcessWatch::Pass ProcessWatch::pass() {
  std::vector<ThreadSeen> cold;
  Pass outcome = Pass::kQuiet;
  for (WatchedProcess& process : tree_.processes()) {
    for (WatchedThread& thread : process.threads) {
      ThreadSeen seen{.process = &process, .thread = &thread};
      if (!thread.is_hot()) {
        cold.push_back(seen);
        continue;
      }
      look_at(seen);
      outcome = std::max(outcome, note(seen));
      if (outcome == Pass::kBusy) return outcome;
    }
  }
  return std::max(outcome, pass_over(cold));
}

ProcessWatch::Pass ProcessWatch::pass_over(std::vector<ThreadSeen>& threads) {
  if (threads.size() < kWorthSharing) {
    std::ranges::for_each(threads, look_at);
  } else {
    if (!shared_loop_) shared_loop_.emplace();
    shared_loop_->run(threads.size(), [&threads](std::size_t i) { look_at(threads[i]); });
  }
  Pass outcome = Pass::kQuiet;
  for (const ThreadSeen& seen : threads) outcome = std::max(outcome, note(seen));
  return outcome;
}

// Touches nothing but the thread itself: two threads may look at two of them at once.
void ProcessWatch::look_at(ThreadSeen& seen) noexcept {
  try {
    const int task_dir = seen.process->task_dir.get();
    seen.sight = seen.thread->look(task_dir, image_of(*seen.process));
    if (seen.sight == Sight::kAsleep) seen.counters = seen.thread->read_counters(task_dir);
  } catch (...) {
    seen.failure = std::current_exception();
  }
}

ProcessWatch::Pass ProcessWatch::note(const ThreadSeen& seen) {
  if (seen.failure) std::rethrow_exception(seen.failure);
  switch (seen.sight) {
    case Sight::kAsleep:
      return note_counters(*seen.process, *seen.thread, seen.counters);
    case Sight::kGone:
      note_gone(*seen.process, *seen.thread);
      return Pass::kMoved;
    case Sight::kBusy:
      break;
  }
  blame(*seen.process, *seen.thread, seen.thread->reason());
  return Pass::kBusy;
}

ProcessWatch::Pass ProcessWatch::note_counters(WatchedProcess& process, const WatchedThread& thread,
                                               Counters counters) {
  switch (counters) {
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
