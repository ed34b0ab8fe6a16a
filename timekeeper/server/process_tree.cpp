#include "timekeeper/server/process_tree.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <ranges>
#include <set>

#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/host_clock.hpp"

namespace warpserve {
namespace {

// A session that creates processes faster than this many listings keep up with is busy anyway.
constexpr int kMaxListings = 8;
// No machine goes once through all process ids in this time.
constexpr HostDuration kMarkTrusted = HostDuration::from_ms(20);
constexpr std::uint64_t kFlagKernelThread = 0x00200000;  // PF_KTHREAD, include/linux/sched.h

Fd open_task_dir(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task";
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) require_free_descriptors(errno);
  return fd;
}

// Without a valid task_dir where there is no such process.
WatchedProcess open_process(pid_t pid, WatchedProcess::Origin origin) {
  WatchedProcess process;
  process.pid = pid;
  process.origin = origin;
  process.task_dir = open_task_dir(pid);
  return process;
}

std::optional<TaskStat> read_process_stat(int task_dir) {
  const auto text = read_proc_file(task_dir, "../stat");
  return text ? parse_task_stat(*text) : std::nullopt;
}

std::vector<pid_t> parse_pids(std::string_view text) {
  std::vector<pid_t> pids;
  while (!text.empty()) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (error != std::errc{}) break;
    pids.push_back(pid);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return pids;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  const Fd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!proc.valid() || !list_numbers(proc.get(), pids)) throw os_error("cannot list /proc");
  return pids;
}

// The parents of all processes of this pid namespace. Read again while one names a parent that is
// not among them: that one ended meanwhile, and its orphan has moved.
std::map<pid_t, pid_t> all_parents() {
  for (int attempt = 0;; ++attempt) {
    std::map<pid_t, pid_t> parents;
    for (const pid_t pid : all_pids()) {
      const auto text = read_proc_file(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat");
      if (const auto stat = text ? parse_task_stat(*text) : std::nullopt) {
        parents.emplace(pid, stat->parent);
      }
    }
    const bool is_whole = std::ranges::all_of(parents, [&](const auto& entry) {
      return entry.second == 0 || parents.contains(entry.second);
    });
    if (is_whole || attempt == kMaxListings) return parents;
  }
}

void require_thread_file(const char* name, const char* option) {
  const std::string path = std::string("/proc/thread-self/") + name;
  const auto text = read_proc_file(AT_FDCWD, path);
  if (text && !text->empty() && *text != "0 0 0\n") return;
  throw UsageError("a session needs " + path +
                   ", which this kernel or sandbox does not give; use a kernel with " + option +
                   ", outside of such a sandbox");
}

bool handles_soft_interrupts(const TaskStat& stat) {
  return (stat.flags & kFlagKernelThread) != 0 &&
         (stat.comm.starts_with("ksoftirqd/") || stat.comm.starts_with("backlog_napi/"));
}

}  // namespace

ProcessTree::ProcessTree(pid_t timekeeper, ChildrenFrom children)
    : timekeeper_(timekeeper), timekeeper_task_dir_(open_task_dir(timekeeper)) {
  if (!timekeeper_task_dir_.valid()) throw os_error("cannot open the Timekeeper's /proc/PID/task");
  require_thread_file("schedstat", "CONFIG_SCHED_INFO");
  require_thread_file("wchan", "CONFIG_KALLSYMS");
  require_thread_file("syscall", "CONFIG_HAVE_ARCH_TRACEHOOK");
  if (read_creation_mark().empty())
    throw UsageError("a session needs /proc/loadavg; mount /proc whole");
  has_children_files_ = children == ChildrenFrom::kBestOfKernel &&
                        read_proc_file(AT_FDCWD, "/proc/thread-self/children").has_value();
  find_soft_interrupt_threads();
}

WatchedProcess* ProcessTree::find(pid_t pid) {
  const auto found = std::ranges::find(processes_, pid, &WatchedProcess::pid);
  return found == processes_.end() ? nullptr : &*found;
}

bool ProcessTree::is_in_tree(pid_t pid) const {
  if (pid == timekeeper_) return true;
  return std::ranges::find(processes_, pid, &WatchedProcess::pid) != processes_.end();
}

// "0.10 0.04 0.01 2/91 5039": of 91 threads 2 can run, and 5039 was the last id given out. The
// mark is the last two, without who can run.
std::string ProcessTree::read_creation_mark() {
  std::array<char, 128> text;
  if (!loadavg_.is_open()) loadavg_.open(AT_FDCWD, "/proc/loadavg");
  const ssize_t count = loadavg_.read(text);
  if (count <= 0) return {};
  const std::string_view whole(text.data(), static_cast<std::size_t>(count));
  const auto slash = whole.find('/');
  return slash == std::string_view::npos ? std::string{} : std::string(whole.substr(slash));
}

bool Listing::is_up_to_date(const std::string& mark_now) const {
  return was_asleep && mark == mark_now && host_now() - at < kMarkTrusted;
}

bool ProcessTree::list_the_new() {
  for (int listing = 0; listing < kMaxListings; ++listing) {
    const std::string mark = read_creation_mark();
    if (!timekeeper_listing_.is_up_to_date(mark)) adopt_children_of_timekeeper(mark);
    const std::vector<bool> selected = select(mark);
    const bool any_selected = std::ranges::find(selected, true) != selected.end();
    if (!must_list_ && !any_selected) return true;
    must_list_ = false;
    list_once(mark, selected);
  }
  return !must_list_;
}

bool ProcessTree::list_everything() {
  for (WatchedProcess& process : processes_) {
    process.has_run = true;
    process.listing = Listing{};
  }
  must_list_ = true;
  return list_the_new();
}

// Those that have run, and their parents for children made with CLONE_PARENT.
std::vector<bool> ProcessTree::select(const std::string& mark) const {
  std::vector<bool> selected(processes_.size());
  for (std::size_t i = processes_.size(); i-- > 0;) {
    if (!processes_[i].is_in_session() || !processes_[i].has_run ||
        processes_[i].listing.is_up_to_date(mark)) {
      continue;
    }
    selected[i] = true;
    const auto parent = std::ranges::find(processes_, processes_[i].parent, &WatchedProcess::pid);
    if (parent != processes_.end() && parent->is_in_session()) {
      selected[static_cast<std::size_t>(parent - processes_.begin())] = true;
    }
  }
  return selected;
}

void ProcessTree::list_once(const std::string& mark, const std::vector<bool>& selected) {
  for (std::size_t i = selected.size(); i-- > 0;) {
    if (selected[i]) {
      list_fully(i, mark);
    } else if (processes_[i].is_in_session()) {
      adopt_children(processes_[i].task_dir.get(), processes_[i].pid);
    }
  }
  adopt_children_of_timekeeper(mark);
  for (std::size_t i = selected.size(); i < processes_.size(); ++i) list_fully(i, mark);
  drop_ended();
}

// By index: adopting children moves the processes. The main thread comes last: it takes orphans.
void ProcessTree::list_fully(std::size_t index, const std::string& mark) {
  const bool found_threads = list_threads(processes_[index]);
  std::vector<pid_t> tids;
  for (const WatchedThread& thread : processes_[index].threads) tids.push_back(thread.tid());
  const int task_dir = processes_[index].task_dir.get();
  for (const pid_t tid : tids | std::views::reverse) adopt_children(task_dir, tid);
  WatchedProcess& process = processes_[index];
  process.has_run = found_threads;
  process.listing = Listing{.mark = mark, .at = host_now(), .was_asleep = false};
}

// True if it found new ones. These may have created others since the folder was read; and where one
// of them has ended meanwhile, the kernel may have left out others (fs/proc/base.c, next_tid).
bool ProcessTree::list_threads(WatchedProcess& process) {
  std::vector<pid_t> tids;
  if (!list_numbers(process.task_dir.get(), tids)) return false;  // ended; its threads will tell
  const std::size_t known = process.threads.size();
  bool found_new = false;
  for (const pid_t tid : tids) {
    const auto end = process.threads.begin() + static_cast<std::ptrdiff_t>(known);
    const auto place =
        std::ranges::lower_bound(process.threads.begin(), end, tid, {}, &WatchedThread::tid);
    if (place != end && place->tid() == tid) continue;
    found_new = true;
    WatchedThread thread(tid);
    if (thread.read_counters(process.task_dir.get()) == Counters::kGone) continue;
    process.threads.push_back(std::move(thread));
  }
  if (!found_new) return false;
  must_list_ = true;
  std::ranges::sort(process.threads, {}, &WatchedThread::tid);
  return true;
}

void ProcessTree::adopt_children(int task_dir, pid_t tid) {
  if (!has_children_files_) return;
  const auto text = read_proc_file(task_dir, std::to_string(tid) + "/children");
  if (!text) return;
  for (const pid_t child : parse_pids(*text)) adopt(child);
}

void ProcessTree::adopt_children_of_timekeeper(const std::string& mark) {
  const HostTime begin = host_now();
  if (has_children_files_) {
    std::vector<pid_t> tids;
    if (!list_numbers(timekeeper_task_dir_.get(), tids)) throw os_error("cannot list own threads");
    for (const pid_t tid : tids | std::views::reverse) {
      adopt_children(timekeeper_task_dir_.get(), tid);
    }
  } else {
    adopt_by_parent();
  }
  timekeeper_listing_ = Listing{.mark = mark, .at = begin, .was_asleep = true};
}

void ProcessTree::adopt_by_parent() {
  const auto parents = all_parents();
  for (bool grew = true; grew;) {
    const std::size_t known = processes_.size();
    for (const auto& [pid, parent] : parents) {
      if (is_in_tree(parent)) adopt(pid);
    }
    grew = processes_.size() > known;
  }
}

void ProcessTree::adopt(pid_t pid) {
  if (is_in_tree(pid)) return;
  WatchedProcess process = open_process(pid, WatchedProcess::Origin::kTree);
  if (!process.task_dir.valid()) return;
  // The number may have passed to a stranger since it was read.
  const auto stat = read_process_stat(process.task_dir.get());
  if (!stat || !is_in_tree(stat->parent)) return;
  process.parent = stat->parent;
  processes_.push_back(std::move(process));
  must_list_ = true;
}

bool ProcessTree::add_outside(pid_t pid) {
  if (is_in_tree(pid)) return true;
  WatchedProcess process = open_process(pid, WatchedProcess::Origin::kOutside);
  if (!process.task_dir.valid()) return false;
  list_threads(process);
  if (process.threads.empty()) return false;
  processes_.push_back(std::move(process));
  return true;
}

bool ProcessTree::add_own_thread(pid_t tid) {
  WatchedProcess* own = find(timekeeper_);
  if (own == nullptr) {
    own = &processes_.emplace_back(open_process(timekeeper_, WatchedProcess::Origin::kTimekeeper));
    const auto stat = read_process_stat(own->task_dir.get());
    if (stat) own->member_image = stat->image;  // its timed waits are nobody's virtual time
  }
  WatchedThread thread(tid);
  const bool is_alive = thread.read_counters(own->task_dir.get()) == Counters::kChanged;
  if (is_alive) own->threads.push_back(std::move(thread));
  drop_ended();
  return is_alive;
}

void ProcessTree::remove_outside(pid_t pid) {
  const WatchedProcess* root = find(pid);
  if (root == nullptr || root->origin != WatchedProcess::Origin::kOutside) return;
  std::set<pid_t> leaving = {pid};
  std::erase_if(processes_, [&](const WatchedProcess& process) {
    const bool leaves = process.pid == pid || (process.origin == WatchedProcess::Origin::kTree &&
                                               leaving.contains(process.parent));
    if (leaves) leaving.insert(process.pid);
    return leaves;
  });
}

void ProcessTree::forget(const std::vector<std::pair<pid_t, pid_t>>& gone) {
  for (const auto& [pid, tid] : gone) {
    WatchedProcess* process = find(pid);
    if (process == nullptr) continue;
    std::erase_if(process->threads, [&](const WatchedThread& t) { return t.tid() == tid; });
    // Another thread may have got the number since the last listing.
    process->has_run = true;
    process->listing = Listing{};
  }
  drop_ended();
}

// What they leave behind has moved up the tree, and their numbers are free again.
void ProcessTree::drop_ended() {
  const auto ended = std::erase_if(
      processes_, [](const WatchedProcess& process) { return process.threads.empty(); });
  if (ended == 0) return;
  must_list_ = true;
  timekeeper_listing_ = Listing{};
}

void ProcessTree::find_soft_interrupt_threads() {
  for (const pid_t pid : all_pids()) {
    WatchedProcess process = open_process(pid, WatchedProcess::Origin::kKernel);
    if (!process.task_dir.valid()) continue;
    const auto stat = read_process_stat(process.task_dir.get());
    if (!stat || !handles_soft_interrupts(*stat)) continue;
    process.threads.emplace_back(pid, WatchedThread::Kind::kKernel);
    processes_.push_back(std::move(process));
  }
}

}  // namespace warpserve
