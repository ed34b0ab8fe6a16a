#include "tests/programs/runner/child_process.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/runner/fail.hpp"

namespace programs {

namespace {

pid_t start_by_fork(const std::string& binary, const std::string& argument) {
  const pid_t pid = must(fork(), "fork");
  if (pid != 0) return pid;
  execl(binary.c_str(), binary.c_str(), argument.c_str(), nullptr);
  _exit(127);
}

pid_t start_by_spawn(const std::string& binary, const std::string& argument) {
  char* const arguments[] = {const_cast<char*>(binary.c_str()), const_cast<char*>(argument.c_str()),
                             nullptr};
  pid_t pid = 0;
  must_be_zero(posix_spawn(&pid, binary.c_str(), nullptr, nullptr, arguments, environ),
               "posix_spawn");
  return pid;
}

}  // namespace

Starter starter_called(const std::string& means) {
  if (means == "fork") return start_by_fork;
  if (means == "spawn") return start_by_spawn;
  fail("no way to start a program is called " + means);
}

void await_success(pid_t pid) {
  int status = 0;
  must(waitpid(pid, &status, 0), "waitpid");
  if (status != 0) fail("a process of a program ended with wait status " + std::to_string(status));
}

}  // namespace programs
