/* Every timed wait of libc, each with the time that it must take on a virtual clock.
 *
 * Prints one line a case: name, expected ns, and what passed on CLOCK_MONOTONIC and on
 * CLOCK_REALTIME. Argument: the longest expected wait to run, in ns (default: all).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      fprintf(stderr, "%s: %s (errno %d)\n", __func__, #condition, errno); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

static int64_t now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static struct timespec timespec_of(int64_t ns) {
  return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static struct timespec after(clockid_t clock, int64_t ns) {
  return timespec_of(now_ns(clock) + ns);
}

/* No clock tick, no whole microsecond. */
enum { kOddNs = 123456789 };

static void case_nanosleep(void) {
  struct timespec odd = timespec_of(kOddNs);
  CHECK(nanosleep(&odd, NULL) == 0);
}

static void case_one_nanosecond(void) {
  struct timespec one = {0, 1};
  CHECK(nanosleep(&one, NULL) == 0);
}

static void case_clock_nanosleep_absolute(void) {
  struct timespec end = after(CLOCK_MONOTONIC, kOddNs);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == 0);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == 0);
}

static void case_clock_nanosleep_realtime(void) {
  struct timespec end = after(CLOCK_REALTIME, kOddNs);
  CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &end, NULL) == 0);
}

static void case_usleep(void) {
  CHECK(usleep(250000) == 0);
}
static void case_sleep(void) {
  CHECK(sleep(2) == 0);
}

static void case_poll(void) {
  int fds[2];
  CHECK(pipe(fds) == 0);
  struct pollfd polled = {fds[0], POLLIN, 0};
  CHECK(poll(&polled, 1, 77) == 0);
  close(fds[0]);
  close(fds[1]);
}

static void case_ppoll(void) {
  struct timespec odd = timespec_of(kOddNs);
  CHECK(ppoll(NULL, 0, &odd, NULL) == 0);
}

static void case_select(void) {
  struct timeval timeout = {0, 250001};
  CHECK(select(0, NULL, NULL, NULL, &timeout) == 0);
  CHECK(timeout.tv_sec == 0 && timeout.tv_usec == 0);
}

static void case_pselect(void) {
  struct timespec odd = timespec_of(kOddNs);
  CHECK(pselect(0, NULL, NULL, NULL, &odd, NULL) == 0);
}

static void case_epoll_wait(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event;
  CHECK(epoll_wait(epoll, &event, 1, 77) == 0);
  close(epoll);
}

static void* write_after_sleep(void* fd) {
  struct timespec odd = timespec_of(kOddNs);
  nanosleep(&odd, NULL);
  CHECK(write(*(int*)fd, "12345678", 8) == 8);
  return NULL;
}

static void case_epoll_woken_early(void) {
  int fds[2];
  CHECK(pipe(fds) == 0);
  pthread_t writer;
  CHECK(pthread_create(&writer, NULL, write_after_sleep, &fds[1]) == 0);
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event) == 0);
  CHECK(epoll_wait(epoll, &event, 1, INT_MAX) == 1);
  CHECK(pthread_join(writer, NULL) == 0);
  close(epoll);
  close(fds[0]);
  close(fds[1]);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void case_cond_timedwait(void) {
  struct timespec end = after(CLOCK_REALTIME, kOddNs);
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_timedwait(&condition, &mutex, &end) == ETIMEDOUT);
  pthread_mutex_unlock(&mutex);
}

static void case_cond_clockwait(void) {
  struct timespec end = after(CLOCK_MONOTONIC, kOddNs);
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &end) == ETIMEDOUT);
  pthread_mutex_unlock(&mutex);
}

static void* signal_after_sleep(void* unused) {
  struct timespec odd = timespec_of(kOddNs);
  nanosleep(&odd, NULL);
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void case_cond_signalled_early(void) {
  pthread_t other;
  struct timespec end = after(CLOCK_REALTIME, 3600 * NS_PER_S);
  pthread_mutex_lock(&mutex);
  CHECK(pthread_create(&other, NULL, signal_after_sleep, NULL) == 0);
  CHECK(pthread_cond_timedwait(&condition, &mutex, &end) == 0);
  pthread_mutex_unlock(&mutex);
  pthread_join(other, NULL);
}

static void* hold_the_lock(void* locked) {
  pthread_mutex_lock(&mutex);
  sem_post(locked);
  struct timespec odd = timespec_of(2LL * kOddNs);
  nanosleep(&odd, NULL);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void case_mutex_timedlock(void) {
  sem_t locked;
  sem_init(&locked, 0, 0);
  pthread_t other;
  CHECK(pthread_create(&other, NULL, hold_the_lock, &locked) == 0);
  sem_wait(&locked);
  struct timespec end = after(CLOCK_REALTIME, kOddNs);
  CHECK(pthread_mutex_timedlock(&mutex, &end) == ETIMEDOUT);
  end = after(CLOCK_MONOTONIC, 3600 * NS_PER_S);
  CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &end) == 0);
  pthread_mutex_unlock(&mutex);
  pthread_join(other, NULL);
}

static void case_sem_timedwait(void) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  struct timespec end = after(CLOCK_REALTIME, kOddNs);
  CHECK(sem_timedwait(&semaphore, &end) == -1 && errno == ETIMEDOUT);
}

static void case_sem_clockwait(void) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  struct timespec end = after(CLOCK_MONOTONIC, kOddNs);
  CHECK(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end) == -1 && errno == ETIMEDOUT);
}

static void case_c11_condition(void) {
  cnd_t cond;
  mtx_t lock;
  cnd_init(&cond);
  mtx_init(&lock, mtx_timed);
  struct timespec end = after(CLOCK_REALTIME, kOddNs);
  mtx_lock(&lock);
  CHECK(cnd_timedwait(&cond, &lock, &end) == thrd_timedout);
  mtx_unlock(&lock);
  cnd_destroy(&cond);
}

static void case_futex(void) {
  uint32_t word = 7;
  struct timespec odd = timespec_of(kOddNs);
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &odd, NULL, 0) == -1);
  CHECK(errno == ETIMEDOUT);
}

static void case_sigtimedwait(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  struct timespec odd = timespec_of(kOddNs);
  sigprocmask(SIG_BLOCK, &set, NULL);
  CHECK(sigtimedwait(&set, NULL, &odd) == -1 && errno == EAGAIN);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static volatile sig_atomic_t alarms;
static void count_alarm(int number) {
  alarms += number == SIGALRM;
}

static void case_setitimer(void) {
  struct itimerval timer = {.it_value = {0, 250001}};
  alarms = 0;
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  pause();
  CHECK(alarms == 1);
}

static void case_alarm_interrupts(void) {
  struct timespec hour = {3600, 0}, left;
  alarms = 0;
  CHECK(alarm(1) == 0);
  CHECK(nanosleep(&hour, &left) == -1 && errno == EINTR);
  CHECK(alarms == 1 && left.tv_sec == 3599 && left.tv_nsec == 0);
}

static void case_timer_create(void) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  timer_t timer;
  alarms = 0;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec when = {.it_value = timespec_of(kOddNs)};
  CHECK(timer_settime(timer, 0, &when, NULL) == 0);
  pause();
  CHECK(alarms == 1);
  timer_delete(timer);
}

static void case_timerfd(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec when = {.it_value = timespec_of(kOddNs)};
  CHECK(timerfd_settime(fd, 0, &when, NULL) == 0);
  uint64_t expirations = 0;
  CHECK(read(fd, &expirations, sizeof expirations) == sizeof expirations && expirations == 1);
  close(fd);
}

static void case_timerfd_periodic_in_poll(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct itimerspec when = {timespec_of(kOddNs), timespec_of(kOddNs)};
  CHECK(timerfd_settime(fd, 0, &when, NULL) == 0);
  for (int i = 0; i < 3; ++i) {
    struct pollfd polled = {fd, POLLIN, 0};
    CHECK(poll(&polled, 1, -1) == 1);
    uint64_t expirations = 0;
    CHECK(read(fd, &expirations, sizeof expirations) == sizeof expirations && expirations == 1);
  }
  close(fd);
}

static void case_child_sleeps(void) {
  pid_t child = fork();
  if (child == 0) {
    case_nanosleep();
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void case_30_days(void) {
  struct timespec month = {30 * 86400, 0};
  CHECK(nanosleep(&month, NULL) == 0);
}

struct Case {
  const char* name;
  void (*run)(void);
  int64_t expected_ns;
};

#define CASE(name, expected_ns) {#name, case_##name, expected_ns}
static const struct Case cases[] = {
    CASE(nanosleep, kOddNs),
    CASE(one_nanosecond, 1),
    CASE(clock_nanosleep_absolute, kOddNs),
    CASE(clock_nanosleep_realtime, kOddNs),
    CASE(usleep, 250000000),
    CASE(sleep, 2 * NS_PER_S),
    CASE(poll, 77000000),
    CASE(ppoll, kOddNs),
    CASE(select, 250001000),
    CASE(pselect, kOddNs),
    CASE(epoll_wait, 77000000),
    CASE(epoll_woken_early, kOddNs),
    CASE(cond_timedwait, kOddNs),
    CASE(cond_clockwait, kOddNs),
    CASE(cond_signalled_early, kOddNs),
    CASE(mutex_timedlock, 2LL * kOddNs),
    CASE(sem_timedwait, kOddNs),
    CASE(sem_clockwait, kOddNs),
    CASE(c11_condition, kOddNs),
    CASE(futex, kOddNs),
    CASE(sigtimedwait, kOddNs),
    CASE(setitimer, 250001000),
    CASE(alarm_interrupts, NS_PER_S),
    CASE(timer_create, kOddNs),
    CASE(timerfd, kOddNs),
    CASE(timerfd_periodic_in_poll, 3LL * kOddNs),
    CASE(child_sleeps, kOddNs),
    CASE(30_days, 30LL * 86400 * NS_PER_S),
};

int main(int argc, char** argv) {
  const int64_t longest_ns = argc > 1 ? atoll(argv[1]) : INT64_MAX;
  struct sigaction on_alarm = {.sa_handler = count_alarm};
  sigaction(SIGALRM, &on_alarm, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    if (cases[i].expected_ns > longest_ns) continue;
    const int64_t monotonic = now_ns(CLOCK_MONOTONIC), realtime = now_ns(CLOCK_REALTIME);
    cases[i].run();
    printf("%s %lld %lld %lld\n", cases[i].name, (long long)cases[i].expected_ns,
           (long long)(now_ns(CLOCK_MONOTONIC) - monotonic),
           (long long)(now_ns(CLOCK_REALTIME) - realtime));
    fflush(stdout);
  }
  return 0;
}
