#include "tests/programs/runner/sleeps.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "tests/programs/runner/clocks.hpp"
#include "tests/programs/runner/descriptors.hpp"
#include "tests/programs/runner/fail.hpp"
#include "tests/programs/runner/futex.hpp"
#include "timekeeper/preload/warpserve.h"

namespace programs {

namespace {

void expect_timeout(int result, const char* call) {
  expect(result == -1 && errno == ETIMEDOUT, call);
}

// --- Sleeps by name -----------------------------------------------------------------------------

void by_nanosleep(std::int64_t ns) {
  const timespec duration = timespec_of(ns);
  must(nanosleep(&duration, nullptr), "nanosleep");
}

void by_clock_nanosleep(std::int64_t ns) {
  const timespec duration = timespec_of(ns);
  must_be_zero(clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr), "clock_nanosleep");
}

template <clockid_t clock>
void by_clock_nanosleep_until(std::int64_t ns) {
  const timespec end = reading_in(clock, ns);
  must_be_zero(clock_nanosleep(clock, TIMER_ABSTIME, &end, nullptr), "clock_nanosleep");
}

void by_usleep(std::int64_t ns) {
  must(usleep(static_cast<useconds_t>(ns / kNsPerUs)), "usleep");
}

void by_thrd_sleep(std::int64_t ns) {
  const timespec duration = timespec_of(ns);
  expect(thrd_sleep(&duration, nullptr) == 0, "thrd_sleep");
}

void by_sleep_for(std::int64_t ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

// --- Polls of nothing ---------------------------------------------------------------------------

void by_poll(std::int64_t ns) {
  expect(poll(nullptr, 0, ms_of(ns)) == 0, "poll");
}

void by_ppoll(std::int64_t ns) {
  const timespec timeout = timespec_of(ns);
  expect(ppoll(nullptr, 0, &timeout, nullptr) == 0, "ppoll");
}

void by_select(std::int64_t ns) {
  timeval timeout = timeval_of(ns);
  expect(select(0, nullptr, nullptr, nullptr, &timeout) == 0, "select");
}

void by_pselect(std::int64_t ns) {
  const timespec timeout = timespec_of(ns);
  expect(pselect(0, nullptr, nullptr, nullptr, &timeout, nullptr) == 0, "pselect");
}

void by_epoll_wait(std::int64_t ns) {
  const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  expect(epoll_wait(epoll.get(), &event, 1, ms_of(ns)) == 0, "epoll_wait");
}

void by_epoll_pwait2(std::int64_t ns) {
  const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  const timespec timeout = timespec_of(ns);
  expect(epoll_pwait2(epoll.get(), &event, 1, &timeout, nullptr) == 0, "epoll_pwait2");
}

// --- Waits for what never comes -----------------------------------------------------------------

void by_condition_wait_for(std::int64_t ns) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  expect(!never.wait_for(lock, std::chrono::nanoseconds(ns), [] { return false; }), "wait_for");
}

void by_pthread_cond_timedwait(std::int64_t ns) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  const timespec end = reading_in(CLOCK_REALTIME, ns);
  pthread_mutex_lock(&mutex);
  expect(pthread_cond_timedwait(&never, &mutex, &end) == ETIMEDOUT, "pthread_cond_timedwait");
  pthread_mutex_unlock(&mutex);
}

class EmptySemaphore {
 public:
  EmptySemaphore() { must(sem_init(&semaphore_, 0, 0), "sem_init"); }
  ~EmptySemaphore() { sem_destroy(&semaphore_); }
  EmptySemaphore(const EmptySemaphore&) = delete;
  EmptySemaphore& operator=(const EmptySemaphore&) = delete;
  sem_t* get() { return &semaphore_; }

 private:
  sem_t semaphore_;
};

void by_sem_timedwait(std::int64_t ns) {
  EmptySemaphore never;
  const timespec end = reading_in(CLOCK_REALTIME, ns);
  expect_timeout(sem_timedwait(never.get(), &end), "sem_timedwait");
}

void by_sem_clockwait(std::int64_t ns) {
  EmptySemaphore never;
  const timespec end = reading_in(CLOCK_MONOTONIC, ns);
  expect_timeout(sem_clockwait(never.get(), CLOCK_MONOTONIC, &end), "sem_clockwait");
}

void by_futex_wait(std::int64_t ns) {
  FutexWord never{0};
  const timespec timeout = timespec_of(ns);
  expect_timeout(static_cast<int>(futex_wait(never, FUTEX_WAIT_PRIVATE, 0, &timeout)),
                 "FUTEX_WAIT");
}

void by_futex_wait_bitset(std::int64_t ns) {
  FutexWord never{0};
  const timespec end = reading_in(CLOCK_MONOTONIC, ns);
  expect_timeout(static_cast<int>(futex_wait(never, FUTEX_WAIT_BITSET_PRIVATE, 0, &end)),
                 "FUTEX_WAIT_BITSET");
}

void by_mutex_timedlock(std::int64_t ns) {
  pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&held);
  const timespec end = reading_in(CLOCK_REALTIME, ns);
  expect(pthread_mutex_timedlock(&held, &end) == ETIMEDOUT, "pthread_mutex_timedlock");
  pthread_mutex_unlock(&held);
}

void by_sigtimedwait(std::int64_t ns) {
  sigset_t never;
  sigemptyset(&never);
  sigaddset(&never, SIGUSR2);
  const timespec timeout = timespec_of(ns);
  expect(sigtimedwait(&never, nullptr, &timeout) == -1 && errno == EAGAIN, "sigtimedwait");
}

// --- The C API of a session ----------------------------------------------------------------------

// A function of the preloaded library; null outside of a session.
template <class Function>
Function* session_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

class SessionActor {
 public:
  SessionActor() { expect(create_("program", &actor_) == WS_OK, "ws_actor_create"); }
  ~SessionActor() { destroy_(actor_); }
  SessionActor(const SessionActor&) = delete;
  SessionActor& operator=(const SessionActor&) = delete;

  static bool in_session() { return session_function<decltype(ws_now_ns)>("ws_now_ns") != nullptr; }

  void jump(std::int64_t ns) { expect(jump_(actor_, ns) == WS_OK, "ws_actor_jump"); }
  void wait_for(std::int64_t ns) {
    expect(wait_until_(actor_, now_() + ns) == WS_OK, "ws_actor_wait_until");
  }

 private:
  decltype(ws_actor_create)* create_ =
      session_function<decltype(ws_actor_create)>("ws_actor_create");
  decltype(ws_actor_destroy)* destroy_ =
      session_function<decltype(ws_actor_destroy)>("ws_actor_destroy");
  decltype(ws_actor_jump)* jump_ = session_function<decltype(ws_actor_jump)>("ws_actor_jump");
  decltype(ws_actor_wait_until)* wait_until_ =
      session_function<decltype(ws_actor_wait_until)>("ws_actor_wait_until");
  decltype(ws_now_ns)* now_ = session_function<decltype(ws_now_ns)>("ws_now_ns");
  ws_actor* actor_ = nullptr;
};

void by_actor_jump(std::int64_t ns) {
  if (SessionActor::in_session()) {
    SessionActor().jump(ns);
  } else {
    by_nanosleep(ns);
  }
}

void by_actor_wait_until(std::int64_t ns) {
  if (SessionActor::in_session()) {
    SessionActor().wait_for(ns);
  } else {
    by_nanosleep(ns);
  }
}

// --- Timers -------------------------------------------------------------------------------------

Descriptor armed_timer(int flags, const timespec& expires) {
  Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  itimerspec once{};
  once.it_value = expires;
  must(timerfd_settime(timer.get(), flags, &once, nullptr), "timerfd_settime");
  return timer;
}

void read_expiry(const Descriptor& timer) {
  std::uint64_t expirations = 0;
  must(read(timer.get(), &expirations, sizeof expirations), "read of a timer");
  expect(expirations == 1, "a timer expires once");
}

void by_timerfd(std::int64_t ns) {
  read_expiry(armed_timer(0, timespec_of(ns)));
}

void by_timerfd_absolute(std::int64_t ns) {
  read_expiry(armed_timer(TFD_TIMER_ABSTIME, reading_in(CLOCK_MONOTONIC, ns)));
}

void by_timerfd_poll(std::int64_t ns) {
  const Descriptor timer = armed_timer(0, timespec_of(ns));
  expect(wait_readable("poll", timer.get(), std::nullopt), "poll of a timer");
  read_expiry(timer);
}

}  // namespace

Sleep sleep_called(const std::string& means) {
  static const std::map<std::string, Sleep> kSleeps = {
      {"nanosleep", by_nanosleep},
      {"clock_nanosleep", by_clock_nanosleep},
      {"clock_nanosleep_monotonic", by_clock_nanosleep_until<CLOCK_MONOTONIC>},
      {"clock_nanosleep_realtime", by_clock_nanosleep_until<CLOCK_REALTIME>},
      {"usleep", by_usleep},
      {"thrd_sleep", by_thrd_sleep},
      {"sleep_for", by_sleep_for},
      {"poll", by_poll},
      {"ppoll", by_ppoll},
      {"select", by_select},
      {"pselect", by_pselect},
      {"epoll_wait", by_epoll_wait},
      {"epoll_pwait2", by_epoll_pwait2},
      {"condition_wait_for", by_condition_wait_for},
      {"pthread_cond_timedwait", by_pthread_cond_timedwait},
      {"sem_timedwait", by_sem_timedwait},
      {"sem_clockwait", by_sem_clockwait},
      {"futex_wait", by_futex_wait},
      {"futex_wait_bitset", by_futex_wait_bitset},
      {"mutex_timedlock", by_mutex_timedlock},
      {"sigtimedwait", by_sigtimedwait},
      {"timerfd", by_timerfd},
      {"timerfd_absolute", by_timerfd_absolute},
      {"timerfd_poll", by_timerfd_poll},
      {"actor_jump", by_actor_jump},
      {"actor_wait_until", by_actor_wait_until},
  };
  const auto it = kSleeps.find(means);
  if (it == kSleeps.end()) fail("no way to sleep is called " + means);
  return it->second;
}

}  // namespace programs
