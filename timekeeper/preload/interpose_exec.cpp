// Starting programs: they become members, too, whatever the caller left of the environment.
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "timekeeper/preload/environment.hpp"
#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/fatal.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/program_file.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"

using namespace warpserve;

namespace {

constexpr char kDefaultSearchPath[] = "/bin:/usr/bin";

int with_errno(long result) {
  if (!is_syscall_error(result)) return static_cast<int>(result);
  errno = static_cast<int>(-result);
  return -1;
}

const char* search_path() {
  const char* path = variable_of(environ, "PATH");
  return path != nullptr ? path : kDefaultSearchPath;
}

// `start` is called with the environment to use.
template <class Start>
int as_member(const char* program, const char* path, char* const* environment, Start start) {
  if (!is_member()) return start(environment);
  warn_if_static(program, path);
  return with_member_environment(environment, start);
}

// The arguments of an execl…: the first, those in `list` up to the null, and the null.
std::size_t count_of(va_list list) {
  std::size_t count = 1;
  while (va_arg(list, char*) != nullptr) ++count;
  return count;
}

}  // namespace

WARPSERVE_EXPORT int execve(const char* path, char* const* arguments,
                            char* const* environment) noexcept {
  return as_member(path, nullptr, environment, [&](char* const* entries) {
    return with_errno(raw_syscall(SYS_execve, path, arguments, entries));
  });
}

WARPSERVE_EXPORT int execv(const char* path, char* const* arguments) noexcept {
  return execve(path, arguments, environ);
}

WARPSERVE_EXPORT int execvpe(const char* file, char* const* arguments,
                             char* const* environment) noexcept {
  return as_member(file, search_path(), environment,
                   [&](char* const* entries) { return real().execvpe(file, arguments, entries); });
}

WARPSERVE_EXPORT int execvp(const char* file, char* const* arguments) noexcept {
  return execvpe(file, arguments, environ);
}

WARPSERVE_EXPORT int execveat(int folder, const char* path, char* const* arguments,
                              char* const* environment, int flags) noexcept {
  Line program;
  if (path[0] != '/' && folder != AT_FDCWD) program << "/proc/self/fd/" << folder << "/";
  program << path;
  return as_member(program.c_str(), nullptr, environment, [&](char* const* entries) {
    return with_errno(raw_syscall(SYS_execveat, folder, path, arguments, entries, flags));
  });
}

WARPSERVE_EXPORT int fexecve(int fd, char* const* arguments, char* const* environment) noexcept {
  Line program;
  program << "/proc/self/fd/" << fd;
  return as_member(program.c_str(), nullptr, environment, [&](char* const* entries) {
    return with_errno(raw_syscall(SYS_execveat, fd, "", arguments, entries, AT_EMPTY_PATH));
  });
}

// Puts the arguments of the calling execl… into `arguments`, and leaves `list` behind their null.
#define WARPSERVE_COLLECT_ARGUMENTS(first, list, arguments)                              \
  va_list list;                                                                          \
  va_start(list, first);                                                                 \
  const std::size_t count = count_of(list);                                              \
  va_end(list);                                                                          \
  auto** arguments = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
  arguments[0] = const_cast<char*>(first);                                               \
  va_start(list, first);                                                                 \
  for (std::size_t i = 1; i <= count; ++i) arguments[i] = va_arg(list, char*);

WARPSERVE_EXPORT int execl(const char* path, const char* first, ...) noexcept {
  WARPSERVE_COLLECT_ARGUMENTS(first, list, arguments)
  va_end(list);
  return execve(path, arguments, environ);
}

WARPSERVE_EXPORT int execlp(const char* file, const char* first, ...) noexcept {
  WARPSERVE_COLLECT_ARGUMENTS(first, list, arguments)
  va_end(list);
  return execvpe(file, arguments, environ);
}

WARPSERVE_EXPORT int execle(const char* path, const char* first, ...) noexcept {
  WARPSERVE_COLLECT_ARGUMENTS(first, list, arguments)
  char* const* environment = va_arg(list, char**);
  va_end(list);
  return execve(path, arguments, environment);
}
#undef WARPSERVE_COLLECT_ARGUMENTS

WARPSERVE_EXPORT int posix_spawn(pid_t* pid, const char* path,
                                 const posix_spawn_file_actions_t* actions,
                                 const posix_spawnattr_t* attributes, char* const* arguments,
                                 char* const* environment) noexcept {
  return as_member(path, nullptr, environment, [&](char* const* entries) {
    return real().posix_spawn(pid, path, actions, attributes, arguments, entries);
  });
}

WARPSERVE_EXPORT int posix_spawnp(pid_t* pid, const char* file,
                                  const posix_spawn_file_actions_t* actions,
                                  const posix_spawnattr_t* attributes, char* const* arguments,
                                  char* const* environment) noexcept {
  return as_member(file, search_path(), environment, [&](char* const* entries) {
    return real().posix_spawnp(pid, file, actions, attributes, arguments, entries);
  });
}
