#include "timekeeper/server/audit.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "timekeeper/server/held_back_bytes.hpp"
#include "timekeeper/server/host_wait.hpp"
#include "timekeeper/server/procfs.hpp"

namespace warpserve {
namespace {

namespace fs = std::filesystem;

using ThreadKey = std::pair<pid_t, pid_t>;  // process, thread

struct ThreadState {
  std::string comm;
  std::uint64_t start_time_ticks = 0;
  char state = '?';
  std::string schedstat;
  std::string call;  // "running", or the number and arguments; empty where it can't be read
};
using Snapshot = std::map<ThreadKey, ThreadState>;

std::string read_text(const fs::path& path) {
  return read_proc_file(AT_FDCWD, path).value_or("");
}

std::vector<pid_t> numbered_entries(const fs::path& folder) {
  std::vector<pid_t> numbers;
  std::error_code ended;
  for (fs::directory_iterator entry(folder, ended), end; !ended && entry != end;
       entry.increment(ended)) {
    const std::string name = entry->path().filename();
    pid_t number = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && *stop == '\0') numbers.push_back(number);
  }
  return numbers;
}

std::map<pid_t, TaskStat> all_processes() {
  std::map<pid_t, TaskStat> processes;
  for (const pid_t pid : numbered_entries("/proc")) {
    if (auto stat = parse_task_stat(read_text("/proc/" + std::to_string(pid) + "/stat"))) {
      processes.emplace(pid, std::move(*stat));
    }
  }
  return processes;
}

// Repeatedly all whose parent is a member, and not the caller.
std::set<pid_t> members_of(const std::map<pid_t, TaskStat>& processes,
                           const std::vector<pid_t>& roots) {
  std::set<pid_t> members(roots.begin(), roots.end());
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [pid, stat] : processes) {
      if (members.contains(stat.parent)) grew |= members.insert(pid).second;
    }
  }
  members.erase(getpid());
  return members;
}

std::optional<ThreadState> read_thread(const fs::path& folder) {
  const auto stat = parse_task_stat(read_text(folder / "stat"));
  if (!stat || stat->state == 'Z' || stat->state == 'X') return {};
  ThreadState thread{.comm = stat->comm,
                     .start_time_ticks = stat->start_time_ticks,
                     .state = stat->state,
                     .schedstat = read_text(folder / "schedstat"),
                     .call = read_text(folder / "syscall")};
  return thread;
}

void add_threads(Snapshot& snapshot, pid_t pid) {
  const fs::path folder = fs::path("/proc") / std::to_string(pid) / "task";
  for (const pid_t tid : numbered_entries(folder)) {
    auto thread = read_thread(folder / std::to_string(tid));
    if (!thread) continue;
    snapshot.emplace(ThreadKey{pid, tid}, std::move(*thread));
  }
}

Snapshot take_snapshot(const std::vector<pid_t>& roots) {
  const auto processes = all_processes();
  Snapshot snapshot;
  for (const pid_t pid : members_of(processes, roots)) {
    add_threads(snapshot, pid);
  }
  return snapshot;
}

std::string name_of(const ThreadKey& key, const ThreadState& thread) {
  return thread.comm + " (process " + std::to_string(key.first) + ", thread " +
         std::to_string(key.second) + ") ";
}

bool is_vfork_parent(const ThreadState& thread) {
  const auto call = parse_blocked_call(thread.call);
  return thread.state == 'D' && call &&
         (call->number == SYS_vfork || call->number == SYS_clone || call->number == SYS_clone3);
}

// A wait that ends by itself, at an instant of host time. Not those on futexes, which are a
// member's virtual ones with a far deadline, nor one that a signal has interrupted and that does
// not tell.
bool ends_by_itself(const ThreadState& thread) {
  const auto call = parse_blocked_call(thread.call);
  if (!call || call->number == SYS_futex || call->number == SYS_futex_waitv ||
      call->number == SYS_restart_syscall) {
    return false;
  }
  return ends_on_host_time(*call, "");
}

void check_asleep(const ThreadKey& key, const ThreadState& thread,
                  std::vector<std::string>& violations) {
  const std::string name = name_of(key, thread);
  if (thread.state != 'S' && !is_vfork_parent(thread)) {
    violations.push_back(name + "is in state " + thread.state);
  } else if (thread.call.empty()) {
    violations.push_back(name + "may not be looked at");
  } else if (thread.call.starts_with("running")) {
    violations.push_back(name + "is not off its run queue");
  } else if (ends_by_itself(thread)) {
    violations.push_back(name + "waits until an instant of host time: system call " +
                         thread.call.substr(0, thread.call.find('\n')));
  }
}

void check_unchanged(const Snapshot& before, const Snapshot& after,
                     std::vector<std::string>& violations) {
  for (const auto& [key, thread] : before) {
    const auto later = after.find(key);
    if (later == after.end() || later->second.start_time_ticks != thread.start_time_ticks) {
      violations.push_back(name_of(key, thread) + "ended between two passes");
    } else if (later->second.schedstat != thread.schedstat) {
      violations.push_back(name_of(key, thread) + "ran between two passes");
    }
  }
  for (const auto& [key, thread] : after) {
    if (!before.contains(key)) {
      violations.push_back(name_of(key, thread) + "appeared between two passes");
    }
  }
}

std::optional<std::uint64_t> socket_inode(const std::string& target) {
  constexpr std::string_view kPrefix = "socket:[";
  if (!target.starts_with(kPrefix)) return {};
  std::uint64_t inode = 0;
  std::from_chars(target.data() + kPrefix.size(), target.data() + target.size(), inode);
  return inode;
}

// Adds the sockets among the process' descriptors to `sockets`.
void check_descriptors(pid_t pid, const std::string& name, std::set<std::uint64_t>& sockets,
                       std::vector<std::string>& violations) {
  std::error_code error;
  const fs::path folder = fs::path("/proc") / std::to_string(pid) / "fd";
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code closed;
    const std::string target = fs::read_symlink(entry->path(), closed);
    if (const auto inode = socket_inode(target)) sockets.insert(*inode);
    if (target == "anon_inode:[io_uring]") {
      violations.push_back(name + "has an io_uring, descriptor " +
                           entry->path().filename().string());
    }
  }
  if (error == std::errc::permission_denied) {
    violations.push_back(name + "hides its descriptors");
  }
}

}  // namespace

std::vector<std::string> audit(const std::vector<pid_t>& roots) {
  std::vector<std::string> violations;
  const Snapshot before = take_snapshot(roots);
  std::set<std::uint64_t> sockets;
  pid_t last_process = 0;
  for (const auto& [key, thread] : before) {
    if (key.first == last_process) continue;
    last_process = key.first;
    check_descriptors(key.first, name_of(key, thread), sockets, violations);
  }
  for (std::string& text : held_back_bytes(sockets)) violations.push_back(std::move(text));
  const Snapshot after = take_snapshot(roots);
  for (const auto& [key, thread] : after) check_asleep(key, thread, violations);
  check_unchanged(before, after, violations);
  return violations;
}

}  // namespace warpserve
