// Where the library comes to life: before any other code of the process (-z initfirst).
#include "timekeeper/preload/start.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cstring>

#include "timekeeper/preload/environment.hpp"
#include "timekeeper/preload/fatal.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/semaphore.hpp"
#include "timekeeper/preload/thread_state.hpp"

namespace warpserve {

namespace {

// Where this library was loaded from, as an absolute path.
void find_own_path() {
  Dl_info info{};
  if (dladdr(&member, &info) == 0 || info.dli_fname == nullptr) return;
  std::size_t bytes = 0;
  if (info.dli_fname[0] != '/') {
    const long with_nul = raw_syscall(SYS_getcwd, member.library, kMaxPathBytes - 1);
    if (with_nul > 0) bytes = static_cast<std::size_t>(with_nul - 1);
    member.library[bytes++] = '/';
  }
  strncpy(member.library + bytes, info.dli_fname, kMaxPathBytes - 1 - bytes);
}

void after_fork_in_child() {
  if (is_member() && *member.same_process == 0) become_new_member_after_fork();
}

bool prepare(Line& why) {
  if (!semaphores_are_as_we_know_them()) {
    why << "this libc's semaphores are not glibc's of 2.21 and later";
    return false;
  }
  if (!watch_thread_exits() || pthread_atfork(nullptr, nullptr, after_fork_in_child) != 0) {
    why << "no thread key or fork handler is left";
    return false;
  }
  find_own_path();
  return true;
}

__attribute__((constructor)) void start(int /*argc*/, char** /*argv*/, char** environment) {
  const char* folder = variable_of(environment, kEnvSession);
  if (folder == nullptr || folder[0] == '\0') return;
  Line why;
  if (become_member(folder, why) != JoinResult::kJoined) {
    die("cannot join the session at ", folder, ": ", why.c_str());
  }
}

}  // namespace

JoinResult become_member(const char* folder, Line& why) {
  if (!is_member() && !prepare(why)) return JoinResult::kRefused;
  return join(folder, why);
}

}  // namespace warpserve
