// Every interposed wait in a member of a session in exact mode: its result, its errno, and the
// virtual time that it took, to the nanosecond. Run it as a member (tests/test_preload.py does).
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/native/check.hpp"

namespace {

constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kS = 1'000'000'000;

std::int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * kS + now.tv_nsec;
}

timespec spec(std::int64_t ns) {
  return {ns / kS, ns % kS};
}
timespec reading_after(std::int64_t ns, clockid_t clock) {
  return spec(now_ns(clock) + ns);
}

// The virtual time that a call takes.
std::int64_t took_ns(const std::function<void()>& call) {
  const std::int64_t start = now_ns();
  call();
  return now_ns() - start;
}

// A thread that does something after a virtual delay.
std::thread after(std::int64_t ns, std::function<void()> what) {
  return std::thread([ns, what = std::move(what)] {
    const timespec delay = spec(ns);
    nanosleep(&delay, nullptr);
    what();
  });
}

struct Pipe {
  Pipe() { REQUIRE(pipe2(fds, O_CLOEXEC) == 0); }
  ~Pipe() {
    close(fds[0]);
    close(fds[1]);
  }
  int reader() const { return fds[0]; }
  void write_one() const { CHECK_EQ(write(fds[1], "x", 1), ssize_t{1}); }
  int fds[2];
};

std::atomic<int> signals_seen{0};
void note_signal(int /*signal*/) {
  signals_seen.fetch_add(1);
}

void handle(int signal, int flags = 0) {
  struct sigaction action{};
  action.sa_handler = note_signal;
  action.sa_flags = flags;
  REQUIRE(sigaction(signal, &action, nullptr) == 0);
  signals_seen.store(0);
}

// Sends a signal to this thread after a virtual delay.
std::thread interrupt_after(std::int64_t ns) {
  return after(ns, [thread = pthread_self()] { pthread_kill(thread, SIGUSR1); });
}

}  // namespace

// --- Clocks --------------------------------------------------------------------------------------

TEST(clocks_stand_still_between_waits) {
  const std::int64_t start = now_ns();
  volatile std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 10'000'000; ++i) sum = sum + i;
  CHECK_EQ(now_ns(), start);
}

TEST(clocks_agree) {
  const std::int64_t monotonic = now_ns(CLOCK_MONOTONIC);
  for (const clockid_t clock : {CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME}) {
    CHECK_EQ(now_ns(clock), monotonic);
  }
  const std::int64_t realtime = now_ns(CLOCK_REALTIME);
  for (const clockid_t clock : {CLOCK_REALTIME_COARSE, CLOCK_TAI}) {
    CHECK_EQ(now_ns(clock), realtime);
  }
  timeval of_day{};
  gettimeofday(&of_day, nullptr);
  CHECK_EQ(of_day.tv_sec * kS + of_day.tv_usec * kUs, realtime / kUs * kUs);
  CHECK_EQ(time(nullptr), realtime / kS);
  timespec utc{};
  CHECK_EQ(timespec_get(&utc, TIME_UTC), TIME_UTC);
  CHECK_EQ(utc.tv_sec * kS + utc.tv_nsec, realtime);
  timespec by_syscall{};
  CHECK_EQ(syscall(SYS_clock_gettime, CLOCK_REALTIME, &by_syscall), 0L);
  CHECK_EQ(by_syscall.tv_sec * kS + by_syscall.tv_nsec, realtime);
}

TEST(clocks_of_coarser_units_follow) {
  tms cpu_times{};
  struct sysinfo before{}, after{};
  for (const bool by_syscall : {false, true}) {
    const auto ticks = [&] {
      return by_syscall ? syscall(SYS_times, &cpu_times) : times(&cpu_times);
    };
    const auto look = [&](struct sysinfo* info) {
      return by_syscall ? syscall(SYS_sysinfo, info) : sysinfo(info);
    };
    const long start = ticks();
    CHECK_EQ(look(&before), 0L);
    sleep(5);
    CHECK_EQ(ticks() - start, 5 * sysconf(_SC_CLK_TCK));
    CHECK_EQ(look(&after), 0L);
    CHECK_EQ(after.uptime - before.uptime, 5L);
    CHECK(after.totalram > 0);
  }
}

TEST(cpu_time_is_the_hosts) {
  const std::int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
  volatile std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) sum = sum + i;
  CHECK(now_ns(CLOCK_THREAD_CPUTIME_ID) > start);
}

TEST(nobody_sets_the_clock) {
  const timespec time = {0, 0};
  errno = 0;
  CHECK_EQ(clock_settime(CLOCK_REALTIME, &time), -1);
  CHECK_EQ(errno, EPERM);
}

TEST(a_busy_wait_ends) {
  const std::int64_t end = now_ns() + 3 * kMs;
  while (now_ns() < end) {
  }
  CHECK(now_ns() >= end);
}

// --- Sleeps --------------------------------------------------------------------------------------

TEST(sleeps_take_exactly_their_time) {
  const timespec duration = spec(123'456'789);
  CHECK_EQ(took_ns([&] { CHECK_EQ(nanosleep(&duration, nullptr), 0); }), 123'456'789L);
  CHECK_EQ(took_ns([&] { CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, 0, &duration, nullptr), 0); }),
           123'456'789L);
  CHECK_EQ(took_ns([] { CHECK_EQ(usleep(1'500), 0); }), 1'500 * kUs);
  CHECK_EQ(took_ns([] { CHECK_EQ(sleep(7), 0U); }), 7 * kS);
  CHECK_EQ(took_ns([&] { CHECK_EQ(thrd_sleep(&duration, nullptr), 0); }), 123'456'789L);
  CHECK_EQ(took_ns([&] { CHECK_EQ(syscall(SYS_nanosleep, &duration, nullptr), 0L); }),
           123'456'789L);
  CHECK_EQ(took_ns([] { std::this_thread::sleep_for(std::chrono::nanoseconds(1)); }), 1L);
}

TEST(a_sleep_of_30_days) {
  CHECK_EQ(took_ns([] { sleep(30 * 86'400); }), 30 * 86'400 * kS);
}

TEST(absolute_sleeps_end_at_their_reading) {
  for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME}) {
    const timespec end = reading_after(42, clock);
    CHECK_EQ(clock_nanosleep(clock, TIMER_ABSTIME, &end, nullptr), 0);
    CHECK_EQ(now_ns(clock), end.tv_sec * kS + end.tv_nsec);
    CHECK_EQ(took_ns([&] { clock_nanosleep(clock, TIMER_ABSTIME, &end, nullptr); }), 0L);
  }
}

TEST(bad_sleeps_are_refused) {
  const timespec bad_ns = {0, kS};
  const timespec negative = {-1, 0};
  CHECK_EQ(nanosleep(&bad_ns, nullptr), -1);
  CHECK_EQ(errno, EINVAL);
  CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &negative, nullptr), EINVAL);
  CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &bad_ns, nullptr), EINVAL);
}

TEST(a_signal_ends_a_sleep_and_leaves_the_rest) {
  for (const int flags : {0, SA_RESTART}) {
    handle(SIGUSR1, flags);
    std::thread interrupter = interrupt_after(3 * kS);
    timespec remaining{};
    const timespec duration = spec(10 * kS);
    CHECK_EQ(took_ns([&] { CHECK_EQ(nanosleep(&duration, &remaining), -1); }), 3 * kS);
    CHECK_EQ(errno, EINTR);
    CHECK_EQ(remaining.tv_sec * kS + remaining.tv_nsec, 7 * kS);
    CHECK_EQ(signals_seen.load(), 1);
    interrupter.join();
  }
}

TEST(a_signal_handler_may_sleep) {
  struct sigaction action{};
  action.sa_handler = [](int) {
    const timespec nap = spec(5 * kS);
    nanosleep(&nap, nullptr);
  };
  REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
  std::thread interrupter = interrupt_after(1 * kS);
  CHECK_EQ(took_ns([] { CHECK_EQ(sleep(100), 94U); }), 6 * kS);
  interrupter.join();
}

TEST(sleepers_wake_in_order_of_their_targets) {
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> sleepers;
  const std::int64_t start = now_ns();
  for (const int rank : {3, 1, 2, 0}) {
    sleepers.push_back(after((rank + 1) * kMs, [&, rank] {
      const std::lock_guard lock(mutex);
      CHECK_EQ(now_ns(), start + (rank + 1) * kMs);
      order.push_back(rank);
    }));
  }
  for (std::thread& sleeper : sleepers) sleeper.join();
  CHECK(order == (std::vector<int>{0, 1, 2, 3}));
}

TEST(a_cancelled_thread_leaves_its_sleep) {
  pthread_t thread{};
  const auto sleep_long = [](void*) -> void* {
    sleep(1'000'000);
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, nullptr, sleep_long, nullptr) == 0);
  CHECK_EQ(took_ns([&] {
             sleep(1);
             pthread_cancel(thread);
             void* result = nullptr;
             pthread_join(thread, &result);
             CHECK(result == PTHREAD_CANCELED);
             sleep(1);
           }),
           2 * kS);
}

// --- poll, select, epoll -------------------------------------------------------------------------

TEST(polls_time_out_exactly) {
  const Pipe pipe;
  pollfd polled = {pipe.reader(), POLLIN, 0};
  const timespec timeout = spec(1'234'567);
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(&polled, 1, 250), 0); }), 250 * kMs);
  CHECK_EQ(polled.revents, short{0});
  CHECK_EQ(took_ns([&] { CHECK_EQ(ppoll(&polled, 1, &timeout, nullptr), 0); }), 1'234'567L);
  CHECK_EQ(took_ns([] { CHECK_EQ(poll(nullptr, 0, 20), 0); }), 20 * kMs);
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(&polled, 1, 0), 0); }), 0L);
  CHECK_EQ(took_ns([&] { CHECK_EQ(syscall(SYS_poll, &polled, 1, 30), 0L); }), 30 * kMs);
}

TEST(polls_end_early_when_ready) {
  const Pipe pipe;
  pollfd polled = {pipe.reader(), POLLIN, 0};
  std::thread writer = after(70 * kMs, [&] { pipe.write_one(); });
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(&polled, 1, 10'000), 1); }), 70 * kMs);
  CHECK_EQ(polled.revents, short{POLLIN});
  writer.join();
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(&polled, 1, 10'000), 1); }), 0L);
  // The abandoned target must not carry time along.
  CHECK_EQ(took_ns([] { sleep(60); }), 60 * kS);
}

TEST(a_signal_ends_a_poll) {
  handle(SIGUSR1, SA_RESTART);
  const Pipe pipe;
  pollfd polled = {pipe.reader(), POLLIN, 0};
  std::thread interrupter = interrupt_after(5 * kMs);
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(&polled, 1, 10'000), -1); }), 5 * kMs);
  CHECK_EQ(errno, EINTR);
  interrupter.join();
}

TEST(ppoll_lets_signals_in_only_while_it_waits) {
  handle(SIGUSR1);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  const Pipe pipe;
  pollfd polled = {pipe.reader(), POLLIN, 0};
  const timespec timeout = spec(10 * kS);
  std::thread interrupter = interrupt_after(5 * kMs);
  CHECK_EQ(took_ns([] { sleep(1); }), 1 * kS);
  CHECK_EQ(signals_seen.load(), 0);
  CHECK_EQ(took_ns([&] { CHECK_EQ(ppoll(&polled, 1, &timeout, &old), -1); }), 0L);
  CHECK_EQ(errno, EINTR);
  CHECK_EQ(signals_seen.load(), 1);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  interrupter.join();
}

TEST(polls_on_many_descriptors) {
  constexpr std::size_t kCount = 300;
  const Pipe pipe;
  std::vector<pollfd> polled(kCount, pollfd{pipe.reader(), POLLIN, 0});
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(polled.data(), kCount, 9), 0); }), 9 * kMs);
  pipe.write_one();
  CHECK_EQ(poll(polled.data(), kCount, 9), static_cast<int>(kCount));
}

TEST(a_poll_on_as_many_descriptors_as_may_be_open) {
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  constexpr std::size_t kCount = 1'024;
  const rlimit limit = {kCount, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  const Pipe pipe;
  std::vector<pollfd> polled(kCount, pollfd{-1, POLLIN, 0});
  polled.back().fd = pipe.reader();
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(polled.data(), kCount, 9), 0); }), 9 * kMs);
  std::thread writer = after(5 * kMs, [&] { pipe.write_one(); });
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(polled.data(), kCount, 9), 1); }), 5 * kMs);
  CHECK_EQ(int{polled.front().revents}, 0);
  CHECK_EQ(int{polled.back().revents}, POLLIN);
  writer.join();
  setrlimit(RLIMIT_NOFILE, &old);
}

TEST(selects) {
  const Pipe pipe;
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(pipe.reader(), &readable);
  timeval timeout = {0, 125'000};
  CHECK_EQ(took_ns([&] {
             CHECK_EQ(select(pipe.reader() + 1, &readable, nullptr, nullptr, &timeout), 0);
           }),
           125 * kMs);
  CHECK(!FD_ISSET(pipe.reader(), &readable));
  CHECK_EQ(timeout.tv_usec, suseconds_t{0});

  std::thread writer = after(40 * kMs, [&] { pipe.write_one(); });
  FD_SET(pipe.reader(), &readable);
  timeout = {1, 0};
  CHECK_EQ(took_ns([&] {
             CHECK_EQ(select(pipe.reader() + 1, &readable, nullptr, nullptr, &timeout), 1);
           }),
           40 * kMs);
  CHECK(FD_ISSET(pipe.reader(), &readable));
  CHECK_EQ(timeout.tv_usec, suseconds_t{960'000});
  writer.join();

  fd_set bad;
  FD_ZERO(&bad);
  FD_SET(1000, &bad);
  timeout = {1, 0};
  CHECK_EQ(select(1001, &bad, nullptr, nullptr, &timeout), -1);
  CHECK_EQ(errno, EBADF);
  timeout = {0, 5'000};
  CHECK_EQ(took_ns([&] { CHECK_EQ(select(0, nullptr, nullptr, nullptr, &timeout), 0); }), 5 * kMs);
}

TEST(epolls) {
  const Pipe pipe;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event = {EPOLLIN, {.u64 = 7}};
  REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, pipe.reader(), &event) == 0);
  epoll_event got{};
  CHECK_EQ(took_ns([&] { CHECK_EQ(epoll_wait(epoll, &got, 1, 15), 0); }), 15 * kMs);
  std::thread writer = after(6 * kMs, [&] { pipe.write_one(); });
  CHECK_EQ(took_ns([&] { CHECK_EQ(epoll_wait(epoll, &got, 1, 1'000), 1); }), 6 * kMs);
  CHECK_EQ(got.data.u64, std::uint64_t{7});
  writer.join();
  CHECK_EQ(epoll_wait(pipe.reader(), &got, 1, 1'000), -1);
  CHECK_EQ(errno, EINVAL);
  close(epoll);
}

TEST(one_of_two_epoll_waiters_gets_the_event) {
  const Pipe pipe;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 1}};
  REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, pipe.reader(), &event) == 0);
  std::atomic<int> events{0};
  const auto wait = [&] {
    epoll_event got{};
    events.fetch_add(epoll_wait(epoll, &got, 1, 100));
  };
  CHECK_EQ(took_ns([&] {
             std::thread one(wait), two(wait);
             std::thread writer = after(10 * kMs, [&] { pipe.write_one(); });
             one.join();
             two.join();
             writer.join();
           }),
           100 * kMs);
  CHECK_EQ(events.load(), 1);
  close(epoll);
}

// --- Condition variables -------------------------------------------------------------------------

namespace {

struct Signalled {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  bool flag = false;

  void raise(bool all = false) {
    pthread_mutex_lock(&mutex);
    flag = true;
    pthread_mutex_unlock(&mutex);
    if (all) {
      pthread_cond_broadcast(&condition);
    } else {
      pthread_cond_signal(&condition);
    }
  }
};

}  // namespace

TEST(conditions_time_out_exactly) {
  Signalled shared;
  pthread_mutex_lock(&shared.mutex);
  timespec reading = reading_after(77, CLOCK_REALTIME);
  CHECK_EQ(took_ns([&] {
             CHECK_EQ(pthread_cond_timedwait(&shared.condition, &shared.mutex, &reading),
                      ETIMEDOUT);
           }),
           77L);
  reading = reading_after(88, CLOCK_MONOTONIC);
  CHECK_EQ(took_ns([&] {
             CHECK_EQ(pthread_cond_clockwait(&shared.condition, &shared.mutex, CLOCK_MONOTONIC,
                                             &reading),
                      ETIMEDOUT);
           }),
           88L);
  CHECK_EQ(pthread_mutex_trylock(&shared.mutex), EBUSY);
  pthread_mutex_unlock(&shared.mutex);
}

TEST(conditions_on_the_monotonic_clock) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  Signalled shared;
  pthread_cond_init(&shared.condition, &attributes);
  pthread_mutex_lock(&shared.mutex);
  const timespec reading = reading_after(9 * kS, CLOCK_MONOTONIC);
  CHECK_EQ(took_ns([&] {
             CHECK_EQ(pthread_cond_timedwait(&shared.condition, &shared.mutex, &reading),
                      ETIMEDOUT);
           }),
           9 * kS);
  pthread_mutex_unlock(&shared.mutex);
  CHECK_EQ(pthread_cond_destroy(&shared.condition), 0);
}

TEST(a_signalled_condition_ends_the_wait_early) {
  Signalled shared;
  std::thread raiser = after(4 * kMs, [&] { shared.raise(); });
  const timespec reading = reading_after(10 * kS, CLOCK_REALTIME);
  CHECK_EQ(took_ns([&] {
             pthread_mutex_lock(&shared.mutex);
             while (!shared.flag) {
               CHECK_EQ(pthread_cond_timedwait(&shared.condition, &shared.mutex, &reading), 0);
             }
             pthread_mutex_unlock(&shared.mutex);
           }),
           4 * kMs);
  raiser.join();
}

TEST(a_broadcast_wakes_timed_and_untimed_waiters) {
  Signalled shared;
  std::atomic<int> woken{0};
  const auto wait = [&](bool timed) {
    const timespec reading = reading_after(10 * kS, CLOCK_REALTIME);
    pthread_mutex_lock(&shared.mutex);
    while (!shared.flag) {
      if (timed) {
        pthread_cond_timedwait(&shared.condition, &shared.mutex, &reading);
      } else {
        pthread_cond_wait(&shared.condition, &shared.mutex);
      }
    }
    pthread_mutex_unlock(&shared.mutex);
    woken.fetch_add(1);
  };
  std::vector<std::thread> waiters;
  for (const bool timed : {true, false, true, false}) waiters.emplace_back(wait, timed);
  CHECK_EQ(took_ns([&] {
             sleep(1);
             shared.raise(true);
             for (std::thread& waiter : waiters) waiter.join();
           }),
           1 * kS);
  CHECK_EQ(woken.load(), 4);
}

TEST(a_cancelled_waiter_holds_the_mutex) {
  static Signalled shared;
  static std::atomic<bool> held;
  held.store(false);
  const auto body = [](void*) -> void* {
    pthread_mutex_lock(&shared.mutex);
    pthread_cleanup_push(
        [](void*) {
          held.store(pthread_mutex_trylock(&shared.mutex) == EBUSY);
          pthread_mutex_unlock(&shared.mutex);
        },
        nullptr);
    pthread_cond_wait(&shared.condition, &shared.mutex);
    pthread_cleanup_pop(1);
    return nullptr;
  };
  pthread_t thread{};
  REQUIRE(pthread_create(&thread, nullptr, body, nullptr) == 0);
  sleep(1);
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  CHECK(result == PTHREAD_CANCELED);
  CHECK(held.load());
  CHECK_EQ(pthread_mutex_trylock(&shared.mutex), 0);
  pthread_mutex_unlock(&shared.mutex);
  CHECK_EQ(pthread_cond_destroy(&shared.condition), 0);
}

TEST(a_producer_and_a_consumer_lose_nothing) {
  constexpr int kItems = 20'000;
  std::mutex mutex;
  std::condition_variable not_empty, not_full;
  int stored = 0;
  long taken = 0;
  std::thread producer([&] {
    for (int i = 0; i < kItems; ++i) {
      std::unique_lock lock(mutex);
      not_full.wait(lock, [&] { return stored < 4; });
      ++stored;
      not_empty.notify_one();
    }
  });
  while (taken < kItems) {
    std::unique_lock lock(mutex);
    REQUIRE(not_empty.wait_for(lock, std::chrono::hours(1), [&] { return stored > 0; }));
    --stored;
    ++taken;
    not_full.notify_one();
  }
  producer.join();
  CHECK_EQ(stored, 0);
}

TEST(c11_conditions) {
  mtx_t mutex;
  cnd_t condition;
  REQUIRE(mtx_init(&mutex, mtx_timed) == thrd_success && cnd_init(&condition) == thrd_success);
  mtx_lock(&mutex);
  const timespec reading = reading_after(3 * kMs, CLOCK_REALTIME);
  CHECK_EQ(took_ns([&] { CHECK_EQ(cnd_timedwait(&condition, &mutex, &reading), thrd_timedout); }),
           3 * kMs);
  mtx_unlock(&mutex);
  cnd_destroy(&condition);
  mtx_destroy(&mutex);
}

// --- Semaphores, mutexes, futexes ----------------------------------------------------------------

TEST(semaphores) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  timespec reading = reading_after(2 * kS, CLOCK_REALTIME);
  CHECK_EQ(took_ns([&] { CHECK_EQ(sem_timedwait(&semaphore, &reading), -1); }), 2 * kS);
  CHECK_EQ(errno, ETIMEDOUT);
  std::thread poster = after(8 * kMs, [&] { sem_post(&semaphore); });
  reading = reading_after(2 * kS, CLOCK_MONOTONIC);
  CHECK_EQ(took_ns([&] { CHECK_EQ(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &reading), 0); }),
           8 * kMs);
  poster.join();
  int value = -1;
  sem_getvalue(&semaphore, &value);
  CHECK_EQ(value, 0);
  // An abandoned wait leaves no waiter behind: the post is there for the next.
  sem_post(&semaphore);
  CHECK_EQ(sem_trywait(&semaphore), 0);
  sem_destroy(&semaphore);
}

TEST(timed_and_untimed_waiters_share_a_semaphore) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  std::atomic<int> taken{0};
  std::thread untimed([&] {
    sem_wait(&semaphore);
    taken.fetch_add(1);
  });
  std::thread timed([&] {
    const timespec reading = reading_after(100 * kS, CLOCK_REALTIME);
    CHECK_EQ(sem_timedwait(&semaphore, &reading), 0);
    taken.fetch_add(1);
  });
  CHECK_EQ(took_ns([&] {
             sleep(1);
             sem_post(&semaphore);
             sem_post(&semaphore);
             untimed.join();
             timed.join();
           }),
           1 * kS);
  CHECK_EQ(taken.load(), 2);
  sem_destroy(&semaphore);
}

TEST(timed_mutexes) {
  std::timed_mutex mutex;
  mutex.lock();
  std::thread waiter([&] {
    CHECK_EQ(took_ns([&] { CHECK(!mutex.try_lock_for(std::chrono::milliseconds(30))); }), 30 * kMs);
    CHECK_EQ(took_ns([&] { CHECK(mutex.try_lock_for(std::chrono::seconds(30))); }), 70 * kMs);
    mutex.unlock();
  });
  usleep(100'000);
  mutex.unlock();
  waiter.join();
  CHECK(mutex.try_lock());
  mutex.unlock();
}

TEST(contended_timed_mutexes_lose_no_wake_up) {
  std::timed_mutex mutex;
  long count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, timed = i != 0] {
      for (int n = 0; n < 3'000; ++n) {
        if (timed) {
          REQUIRE(mutex.try_lock_for(std::chrono::hours(1)));
        } else {
          mutex.lock();
        }
        ++count;
        mutex.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(count, 9'000L);
}

TEST(an_error_checking_mutex_finds_the_deadlock) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_t mutex;
  pthread_mutex_init(&mutex, &attributes);
  const timespec reading = reading_after(kS, CLOCK_REALTIME);
  CHECK_EQ(pthread_mutex_timedlock(&mutex, &reading), 0);
  CHECK_EQ(took_ns([&] { CHECK_EQ(pthread_mutex_timedlock(&mutex, &reading), EDEADLK); }), 0L);
  pthread_mutex_unlock(&mutex);
}

TEST(futexes_through_syscall) {
  std::atomic<std::uint32_t> word{5};
  const timespec timeout = spec(11 * kMs);
  const auto wait = [&](std::uint32_t expected) {
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
  };
  CHECK_EQ(took_ns([&] { CHECK_EQ(wait(5), -1L); }), 11 * kMs);
  CHECK_EQ(errno, ETIMEDOUT);
  CHECK_EQ(wait(6), -1L);
  CHECK_EQ(errno, EAGAIN);
  std::thread waker = after(2 * kMs, [&] {
    CHECK_EQ(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0), 1L);
  });
  CHECK_EQ(took_ns([&] { CHECK_EQ(wait(5), 0L); }), 2 * kMs);
  waker.join();
  const timespec reading = reading_after(13, CLOCK_MONOTONIC);
  CHECK_EQ(took_ns([&] {
             CHECK_EQ(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 5, &reading, nullptr,
                              FUTEX_BITSET_MATCH_ANY),
                      -1L);
           }),
           13L);
}

// They keep to host time. A wake-up long before the deadline comes at its virtual time all the
// same.
TEST(unvirtualised_futex_waits_have_their_deadline_in_host_time) {
  std::atomic<std::uint32_t> word{0};
  const timespec monotonic = reading_after(100 * kS, CLOCK_MONOTONIC);
  const timespec realtime = reading_after(100 * kS, CLOCK_REALTIME);
  constexpr int kBits = 2;
  const auto wake = [&] {
    CHECK_EQ(syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, nullptr, nullptr, kBits), 1L);
  };
  futex_waitv waited{};
  waited.uaddr = reinterpret_cast<std::uintptr_t>(&word);
  waited.flags = FUTEX_32;
  const std::vector<std::function<long()>> waits = {
      [&] { return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &monotonic, nullptr, kBits); },
      [&] {
        return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &realtime,
                       nullptr, kBits);
      },
      [&] { return syscall(SYS_futex_waitv, &waited, 1, 0, &monotonic, CLOCK_MONOTONIC); },
      [&] { return syscall(SYS_futex_waitv, &waited, 1, 0, &realtime, CLOCK_REALTIME); },
  };
  for (const auto& wait : waits) {
    std::thread waker = after(kS, wake);
    CHECK_EQ(took_ns([&] { CHECK_EQ(wait(), 0L); }), kS);
    waker.join();
  }
  timespec soon = reading_after(20 * kMs, CLOCK_MONOTONIC);
  CHECK_EQ(syscall(SYS_futex_waitv, &waited, 1, 0, &soon, CLOCK_MONOTONIC), -1L);
  CHECK_EQ(errno, ETIMEDOUT);
  soon.tv_nsec = -1;
  CHECK_EQ(syscall(SYS_futex_waitv, &waited, 1, 0, &soon, CLOCK_MONOTONIC), -1L);
  CHECK_EQ(errno, EINVAL);
}

TEST(a_priority_inheriting_lock_has_its_deadline_in_host_time) {
  std::atomic<std::uint32_t> lock{0};
  std::thread owner([&] {
    lock.store(static_cast<std::uint32_t>(syscall(SYS_gettid)));
    sleep(2);
    CHECK_EQ(syscall(SYS_futex, &lock, FUTEX_UNLOCK_PI, 0, nullptr, nullptr, 0), 0L);
  });
  sleep(1);
  const timespec reading = reading_after(100 * kS, CLOCK_REALTIME);
  CHECK_EQ(took_ns([&] {
             CHECK_EQ(syscall(SYS_futex, &lock, FUTEX_LOCK_PI, 0, &reading, nullptr, 0), 0L);
           }),
           kS);
  owner.join();
}

TEST(message_queues) {
  mq_attr attributes{};
  attributes.mq_maxmsg = 1;
  attributes.mq_msgsize = 8;
  const mqd_t queue = mq_open("/warpserve-member-test", O_CREAT | O_RDWR, 0600, &attributes);
  REQUIRE(queue >= 0);
  mq_unlink("/warpserve-member-test");
  char message[8] = {};
  timespec deadline = reading_after(6 * kMs, CLOCK_REALTIME);
  CHECK_EQ(took_ns([&] { CHECK_EQ(mq_timedreceive(queue, message, 8, nullptr, &deadline), -1L); }),
           6 * kMs);
  CHECK_EQ(errno, ETIMEDOUT);
  std::thread sender = after(2 * kMs, [&] { CHECK_EQ(mq_send(queue, "hello", 6, 0), 0); });
  deadline = reading_after(6 * kMs, CLOCK_REALTIME);
  CHECK_EQ(took_ns([&] { CHECK_EQ(mq_timedreceive(queue, message, 8, nullptr, &deadline), 6L); }),
           2 * kMs);
  sender.join();
  deadline = reading_after(6 * kMs, CLOCK_REALTIME);
  CHECK_EQ(mq_timedsend(queue, "x", 1, 0, &deadline), 0);
  CHECK_EQ(took_ns([&] { CHECK_EQ(mq_timedsend(queue, "x", 1, 0, &deadline), -1); }), 6 * kMs);
  mq_close(queue);
}

TEST(io_uring_is_refused) {
  CHECK_EQ(syscall(425, 8, nullptr), -1L);
  CHECK_EQ(errno, ENOSYS);
}

// --- Signals and timers --------------------------------------------------------------------------

TEST(sigtimedwait_waits_in_virtual_time) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  const timespec timeout = spec(3 * kS);
  CHECK_EQ(took_ns([&] { CHECK_EQ(sigtimedwait(&set, nullptr, &timeout), -1); }), 3 * kS);
  CHECK_EQ(errno, EAGAIN);
  std::thread killer = after(1 * kS, [thread = pthread_self()] { pthread_kill(thread, SIGUSR2); });
  CHECK_EQ(took_ns([&] { CHECK_EQ(sigtimedwait(&set, nullptr, &timeout), SIGUSR2); }), 1 * kS);
  killer.join();
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

TEST(an_alarm_interrupts_a_sleep) {
  handle(SIGALRM, SA_RESTART);
  CHECK_EQ(alarm(10), 0U);
  CHECK_EQ(alarm(5), 10U);
  CHECK_EQ(took_ns([] { CHECK_EQ(sleep(20), 15U); }), 5 * kS);
  CHECK_EQ(signals_seen.load(), 1);
}

TEST(an_interval_timer_ticks_until_stopped) {
  handle(SIGALRM);
  const itimerval every_ms = {{0, 1'000}, {0, 500}};
  REQUIRE(setitimer(ITIMER_REAL, &every_ms, nullptr) == 0);
  CHECK_EQ(took_ns([] {
             for (int i = 0; i < 4; ++i) {
               const timespec duration = spec(kS);
               CHECK_EQ(nanosleep(&duration, nullptr), -1);
             }
           }),
           3'500 * kUs);
  itimerval left{};
  getitimer(ITIMER_REAL, &left);
  CHECK_EQ(left.it_interval.tv_usec, suseconds_t{1'000});
  const itimerval stop{};
  setitimer(ITIMER_REAL, &stop, nullptr);
  CHECK_EQ(took_ns([] { CHECK_EQ(sleep(1), 0U); }), kS);
  CHECK_EQ(signals_seen.load(), 4);
}

TEST(posix_timers) {
  handle(SIGUSR2);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR2;
  timer_t timer{};
  REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const itimerspec setting = {{0, 0}, spec(250 * kMs)};
  REQUIRE(timer_settime(timer, 0, &setting, nullptr) == 0);
  itimerspec left{};
  usleep(50'000);
  REQUIRE(timer_gettime(timer, &left) == 0);
  CHECK_EQ(left.it_value.tv_nsec, 200 * kMs);
  CHECK_EQ(took_ns([] { CHECK_EQ(usleep(900'000), -1); }), 200 * kMs);
  REQUIRE(timer_gettime(timer, &left) == 0);
  CHECK_EQ(left.it_value.tv_nsec, 0L);
  CHECK_EQ(timer_delete(timer), 0);
  CHECK_EQ(timer_delete(timer), -1);
}

TEST(timers_that_start_threads) {
  static sem_t done;
  sem_init(&done, 0, 0);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = [](sigval value) {
    if (value.sival_int == 99) sem_post(&done);
  };
  event.sigev_value.sival_int = 99;
  timer_t timer{};
  REQUIRE(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
  const itimerspec setting = {{0, 0}, spec(7 * kMs)};
  timer_settime(timer, 0, &setting, nullptr);
  CHECK_EQ(took_ns([] { sem_wait(&done); }), 7 * kMs);
  timer_delete(timer);
}

TEST(timer_descriptors) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  REQUIRE(fd >= 0);
  const itimerspec setting = {spec(10 * kMs), spec(25 * kMs)};
  REQUIRE(timerfd_settime(fd, 0, &setting, nullptr) == 0);
  std::uint64_t expirations = 0;
  CHECK_EQ(took_ns([&] { CHECK_EQ(read(fd, &expirations, 8), ssize_t{8}); }), 25 * kMs);
  CHECK_EQ(expirations, std::uint64_t{1});
  pollfd polled = {fd, POLLIN, 0};
  CHECK_EQ(took_ns([&] { CHECK_EQ(poll(&polled, 1, 1'000), 1); }), 10 * kMs);
  usleep(25'000);
  CHECK_EQ(read(fd, &expirations, 8), ssize_t{8});
  CHECK_EQ(expirations, std::uint64_t{3});
  const timespec reading = reading_after(kS, CLOCK_MONOTONIC);
  const itimerspec absolute = {{0, 0}, reading};
  REQUIRE(timerfd_settime(fd, TFD_TIMER_ABSTIME, &absolute, nullptr) == 0);
  CHECK_EQ(took_ns([&] { CHECK_EQ(read(fd, &expirations, 8), ssize_t{8}); }), kS);
  close(fd);
  CHECK_EQ(took_ns([] { sleep(5); }), 5 * kS);
}

TEST(timers_by_system_call) {
  const auto fd = static_cast<int>(syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC));
  REQUIRE(fd >= 0);
  const itimerspec setting = {{0, 0}, spec(3'600 * kS)};
  CHECK_EQ(syscall(SYS_timerfd_settime, fd, 0, &setting, nullptr), 0L);
  std::uint64_t expirations = 0;
  CHECK_EQ(took_ns([&] { CHECK_EQ(read(fd, &expirations, 8), ssize_t{8}); }), 3'600 * kS);
  itimerspec rest{};
  CHECK_EQ(syscall(SYS_timerfd_gettime, fd, &rest), 0L);
  CHECK_EQ(rest.it_value.tv_sec, time_t{0});
  close(fd);
  CHECK_EQ(syscall(SYS_alarm, 3'600), 0L);
  const itimerval none{};
  itimerval old{};
  CHECK_EQ(syscall(SYS_setitimer, ITIMER_REAL, &none, &old), 0L);
  CHECK_EQ(old.it_value.tv_sec, time_t{3'600});
  CHECK_EQ(syscall(SYS_getitimer, ITIMER_REAL, &old), 0L);
  CHECK_EQ(old.it_value.tv_sec, time_t{0});
}

TEST(a_timer_cancelled_early_does_not_carry_time_along) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  itimerspec setting = {{0, 0}, spec(3'600 * kS)};
  timerfd_settime(fd, 0, &setting, nullptr);
  setting = {};
  itimerspec old{};
  timerfd_settime(fd, 0, &setting, &old);
  CHECK_EQ(old.it_value.tv_sec, time_t{3'600});
  CHECK_EQ(took_ns([] { sleep(2); }), 2 * kS);
  std::uint64_t expirations = 0;
  CHECK_EQ(read(fd, &expirations, 8), ssize_t{-1});
  CHECK_EQ(errno, EAGAIN);
  close(fd);
}

// --- Processes, descriptors, sockets -------------------------------------------------------------

namespace {

int exit_code_of(pid_t pid) {
  int status = -1;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST(a_forked_child_is_a_member) {
  for (const bool raw : {false, true}) {
    CHECK_EQ(took_ns([&] {
               const pid_t pid = raw ? static_cast<pid_t>(syscall(SYS_fork)) : fork();
               if (pid == 0) {
                 const Pipe pipe;
                 pollfd polled = {pipe.reader(), POLLIN, 0};
                 _exit(took_ns([&] { poll(&polled, 1, 2'000); }) == 2 * kS ? 0 : 1);
               }
               CHECK_EQ(exit_code_of(pid), 0);
             }),
             2 * kS);
  }
}

TEST(a_forked_child_closes_a_timer_that_it_has_inherited) {
  const int parents = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const itimerspec second = {{0, 0}, spec(kS)};
  timerfd_settime(parents, 0, &second, nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const int own = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    const itimerspec setting = {{0, 0}, spec(2 * kS)};
    timerfd_settime(own, 0, &setting, nullptr);
    const bool sets_parents = timerfd_settime(parents, 0, &setting, nullptr) == 0;
    close(parents);
    pollfd polled = {own, POLLIN, 0};
    const bool good = took_ns([&] { poll(&polled, 1, 10'000); }) == 2 * kS;
    _exit(good && !sets_parents ? 0 : 1);
  }
  CHECK_EQ(exit_code_of(pid), 0);
  std::uint64_t expirations = 0;
  CHECK_EQ(read(parents, &expirations, 8), ssize_t{8});
  close(parents);
}

TEST(a_range_without_descriptors_is_refused) {
  CHECK_EQ(close_range(9, 5, 0), -1);
  CHECK_EQ(errno, EINVAL);
}

TEST(a_vforked_child_may_close_everything) {
  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const itimerspec setting = {{0, 0}, spec(4 * kS)};
  timerfd_settime(timer, 0, &setting, nullptr);
  const pid_t pid = vfork();
  if (pid == 0) {
    for (int fd = 3; fd < 8'192; ++fd) close(fd);
    execl("/bin/sleep", "sleep", "1", nullptr);
    _exit(99);
  }
  CHECK_EQ(took_ns([&] { CHECK_EQ(exit_code_of(pid), 0); }), 1 * kS);
  std::uint64_t expirations = 0;
  CHECK_EQ(took_ns([&] { CHECK_EQ(read(timer, &expirations, 8), ssize_t{8}); }), 3 * kS);
  close(timer);
}

TEST(programs_started_with_an_empty_environment_are_members) {
  char name[] = "sleep", duration[] = "50";
  char* arguments[] = {name, duration, nullptr};
  char* nothing[] = {nullptr};
  CHECK_EQ(took_ns([&] {
             pid_t pid = 0;
             REQUIRE(posix_spawn(&pid, "/bin/sleep", nullptr, nullptr, arguments, nothing) == 0);
             CHECK_EQ(exit_code_of(pid), 0);
           }),
           50 * kS);
  CHECK_EQ(took_ns([&] {
             const pid_t pid = fork();
             if (pid == 0) {
               execvpe("sleep", arguments, nothing);
               _exit(99);
             }
             CHECK_EQ(exit_code_of(pid), 0);
           }),
           50 * kS);
}

TEST(a_daemon_that_closes_all_goes_on) {
  const pid_t pid = fork();
  if (pid == 0) {
    const Pipe before;
    pollfd polled = {before.reader(), POLLIN, 0};
    bool good = took_ns([&] { poll(&polled, 1, 10); }) == 10 * kMs;
    closefrom(3);
    good = good && syscall(SYS_close_range, 3, ~0U, 0) == 0;
    const Pipe after_closing;
    polled = {after_closing.reader(), POLLIN, 0};
    good = good && took_ns([&] { poll(&polled, 1, 10); }) == 10 * kMs;
    _exit(good ? 0 : 1);
  }
  CHECK_EQ(exit_code_of(pid), 0);
}

TEST(threads_that_come_and_go) {
  CHECK_EQ(took_ns([] {
             for (int i = 0; i < 200; ++i) {
               std::thread([] {
                 pollfd polled = {0, 0, 0};
                 poll(&polled, 1, 1);
               }).join();
             }
           }),
           200 * kMs);
}

TEST(tcp_sockets_hold_nothing_back) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int off = 0;
  CHECK_EQ(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &off, sizeof off), 0);
  int value = 0;
  socklen_t bytes = sizeof value;
  getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes);
  CHECK_EQ(value, 1);
  close(fd);
}
