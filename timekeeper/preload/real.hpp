// libc's own functions, for the wrappers that end in them. (Where a raw system call does, they use
// that; these are for what is more than one, and for cancellation points.)
#pragma once

#include <aio.h>
#include <grp.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timeb.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

namespace warpserve {

// Every name here is resolved once, before any other code of the process runs.
// clang-format off
#define WARPSERVE_REAL_FUNCTIONS(X) \
  X(accept) X(accept4) X(aio_suspend) X(alarm) X(clock_gettime) X(clock_nanosleep) \
  X(clock_settime) X(close) X(epoll_pwait) X(execvpe) X(getaddrinfo) X(getgrgid) X(getgrgid_r) \
  X(getgrnam) X(getgrnam_r) X(getgrouplist) X(gethostbyaddr) X(gethostbyaddr_r) \
  X(gethostbyname) X(gethostbyname2) X(gethostbyname2_r) X(gethostbyname_r) X(getitimer) \
  X(getnameinfo) X(getpwnam) X(getpwnam_r) X(getpwuid) X(getpwuid_r) X(gettimeofday) \
  X(initgroups) \
  X(mq_timedreceive) X(mq_timedsend) X(nanosleep) X(poll) X(posix_spawn) X(posix_spawnp) \
  X(ppoll) X(pselect) X(pthread_clockjoin_np) X(pthread_mutex_clocklock) \
  X(pthread_rwlock_clockrdlock) X(pthread_rwlock_clockwrlock) X(recvmmsg) X(sched_yield) \
  X(select) X(sem_clockwait) X(sem_timedwait) X(sem_wait) X(semtimedop) X(setitimer) \
  X(setsockopt) X(settimeofday) X(sigtimedwait) X(socket) X(sysinfo) X(time) X(timer_create) \
  X(timer_delete) X(timer_getoverrun) X(timer_gettime) X(timer_settime) X(timerfd_create) \
  X(timerfd_gettime) X(timerfd_settime) X(times) X(timespec_get)
// clang-format on

struct RealFunctions {
#define WARPSERVE_DECLARE_REAL(name) decltype(&::name) name;
  WARPSERVE_REAL_FUNCTIONS(WARPSERVE_DECLARE_REAL)
#undef WARPSERVE_DECLARE_REAL
};

namespace detail {
extern RealFunctions real_functions;
void resolve_real_functions();
}  // namespace detail

inline const RealFunctions& real() {
  // The last one resolved. Null only for code that runs before our constructor.
  if (__builtin_expect(detail::real_functions.timespec_get == nullptr, 0)) {
    detail::resolve_real_functions();
  }
  return detail::real_functions;
}

}  // namespace warpserve
