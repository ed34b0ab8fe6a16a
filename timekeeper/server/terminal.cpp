#include "timekeeper/server/terminal.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>

#include <string>

#include "timekeeper/server/procfs.hpp"

namespace warpserve {

namespace {

bool stdin_is_terminal(pid_t pid) {
  char target[PATH_MAX];
  const std::string link = "/proc/" + std::to_string(pid) + "/fd/0";
  const ssize_t bytes = readlink(link.c_str(), target, sizeof target);
  const std::string_view name(target, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return name.starts_with("/dev/pts/") || name.starts_with("/dev/tty");
}

bool waits_for_input(pid_t pid, pid_t tid) {
  const auto text = read_proc_file(
      AT_FDCWD, "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/syscall");
  const auto call = text ? parse_blocked_call(*text) : std::nullopt;
  if (!call) return false;
  switch (call->number) {
    case SYS_read:
      return call->arguments[0] == STDIN_FILENO;
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool waits_for_terminal(const std::vector<ProcessPicture>& processes) {
  for (const ProcessPicture& process : processes) {
    if (!stdin_is_terminal(process.pid)) continue;
    for (const ThreadPicture& thread : process.threads) {
      if (waits_for_input(process.pid, thread.tid)) return true;
    }
  }
  return false;
}

}  // namespace warpserve
