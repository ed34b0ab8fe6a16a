// Waits three times for 10 ms in a function of gloo's name, and three times in one of its own; prints
// the ns that each took, by the clock that both read.
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>

static long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((noinline)) void gloo_loop(int epoll) __asm__("_ZN4gloo9transport3tcp4Loop3runEv");

void gloo_loop(int epoll) {
  struct epoll_event events[1];
  for (int i = 0; i < 3; ++i) epoll_wait(epoll, events, 1, 10);
}

__attribute__((noinline)) void own_loop(int epoll) {
  struct epoll_event events[1];
  for (int i = 0; i < 3; ++i) epoll_wait(epoll, events, 1, 10);
}

int main(void) {
  const int epoll = epoll_create1(0);
  const long start_ns = now_ns();
  gloo_loop(epoll);
  const long between_ns = now_ns();
  own_loop(epoll);
  printf("%ld %ld\n", between_ns - start_ns, now_ns() - between_ns);
  return 0;
}
