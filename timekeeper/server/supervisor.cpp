#include "timekeeper/server/supervisor.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/host_clock.hpp"
#include "timekeeper/server/procfs.hpp"

namespace warpserve {

namespace {

// What ends by itself with the command (Python's helper processes do) is not ended by us.
constexpr auto kOwnEndGrace = HostDuration::from_ms(100);
constexpr off_t kMaxSpawnRequestBytes = 8 << 20;  // arguments and environment; Linux allows 2 MiB

std::string read_all(int memfd) {
  struct stat info{};
  if (fstat(memfd, &info) != 0 || info.st_size > kMaxSpawnRequestBytes) {
    throw UsageError("the arguments and the environment of a command may take 8 MiB");
  }
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  if (pread(memfd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw os_error("reading a spawn request");
  }
  return bytes;
}

std::vector<std::string> split_at_nul(const std::string& bytes) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = bytes.find('\0', begin);
    if (end == std::string::npos) throw UsageError("spawn request is not NUL-terminated");
    parts.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<char*> as_c_array(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const auto& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, before exec: async-signal-safe calls only.
void restore_signals() {
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) {
    ::signal(signal_number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const SpawnRequest& request, char** arguments, char** environment,
                         pid_t timekeeper, rlimit descriptor_limit) {
  restore_signals();
  setrlimit(RLIMIT_NOFILE, &descriptor_limit);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != timekeeper) _exit(127);
  for (int i = 0; i < 3; ++i) dup2(request.stdio[static_cast<std::size_t>(i)].get(), i);
  if (chdir(request.directory.c_str()) == 0) {
    environ = environment;  // execvp searches its PATH
    execvp(arguments[0], arguments);
  }
  dprintf(STDERR_FILENO, "warpserve: cannot run %s in %s: %s\n", arguments[0],
          request.directory.c_str(), strerror(errno));
  _exit(127);
}

std::map<pid_t, pid_t> parents_of_live_processes() {
  const Fd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<pid_t> pids;
  if (!proc.valid() || !list_numbers(proc.get(), pids)) throw os_error("cannot list /proc");
  std::map<pid_t, pid_t> parents;
  for (const pid_t pid : pids) {
    const auto text = read_proc_file(proc.get(), std::to_string(pid) + "/stat");
    const auto stat = text ? parse_task_stat(*text) : std::nullopt;
    if (stat && stat->state != 'Z' && stat->state != 'X') parents[pid] = stat->parent;
  }
  return parents;
}

void signal_all(const std::vector<pid_t>& pids, int signal_number) {
  for (const pid_t pid : pids) kill(pid, signal_number);
}

bool wait_until_none_left(HostDuration limit) {
  const HostTime deadline = host_now() + limit;
  while (true) {
    if (descendants().empty()) return true;
    if (host_now() >= deadline) return false;
    usleep(5'000);
  }
}

}  // namespace

SpawnRequest read_spawn_request(int memfd, std::array<Fd, 3> stdio) {
  std::vector<std::string> parts = split_at_nul(read_all(memfd));
  std::size_t argc = 0;
  if (parts.size() < 3) throw UsageError("spawn request is too short");
  const std::string& count = parts[1];
  if (std::from_chars(count.data(), count.data() + count.size(), argc).ec != std::errc{} ||
      argc == 0 || argc > parts.size() - 2) {
    throw UsageError("spawn request has a wrong number of arguments");
  }
  const auto first = parts.begin() + 2;
  const auto last = first + static_cast<std::ptrdiff_t>(argc);
  return SpawnRequest{.directory = parts[0],
                      .arguments = {first, last},
                      .environment = {last, parts.end()},
                      .stdio = std::move(stdio)};
}

pid_t spawn(const SpawnRequest& request, rlimit descriptor_limit) {
  // Everything that allocates happens before the fork: other threads may hold the heap's lock.
  const std::vector<char*> arguments = as_c_array(request.arguments);
  const std::vector<char*> environment = as_c_array(request.environment);
  const pid_t timekeeper = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw os_error("fork");
  if (pid == 0) {
    become(request, const_cast<char**>(arguments.data()), const_cast<char**>(environment.data()),
           timekeeper, descriptor_limit);
  }
  return pid;
}

std::vector<pid_t> descendants() {
  const auto parents = parents_of_live_processes();
  std::set<pid_t> family{getpid()};
  std::vector<pid_t> found;
  // A child's pid may be smaller than its parent's once pids have wrapped: repeat until stable.
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [pid, parent] : parents) {
      if (family.contains(parent) && family.insert(pid).second) {
        found.push_back(pid);
        grew = true;
      }
    }
  }
  return found;
}

std::size_t end_descendants(HostDuration grace) {
  if (wait_until_none_left(kOwnEndGrace)) return 0;
  const std::vector<pid_t> first = descendants();
  signal_all(first, SIGTERM);
  signal_all(first, SIGCONT);  // a stopped process cannot act on SIGTERM
  if (wait_until_none_left(grace)) return first.size();
  // What is killed may leave children that appear only now.
  for (int round = 0; round < 100; ++round) {
    signal_all(descendants(), SIGKILL);
    if (wait_until_none_left(HostDuration::from_ms(50))) break;
  }
  return first.size();
}

}  // namespace warpserve
