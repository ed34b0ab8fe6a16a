/* Spends host time without any clock of a session: built statically, it can load no library.
 *
 *   compute MS   computes          sleep MS   sleeps          threads MS   starts short threads
 *   daemon MS    computes in a daemon of its own (double fork) and returns at once
 *   exec MS PROGRAM ARGUMENT…   computes before it becomes PROGRAM
 *
 * Prints nothing. Times are the host's: a static binary's clock is not virtual.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void compute(int ms) {
  const long long end = now_ms() + ms;
  while (now_ms() < end) {
  }
}

static void sleep_ms(int ms) {
  struct timespec duration = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&duration, NULL);
}

static void* short_thread(void* ms) {
  sleep_ms(*(int*)ms);
  compute(*(int*)ms);
  return NULL;
}

/* At no moment more than two threads, and none lives longer than 10 ms. */
static void threads(int ms) {
  int short_ms = 5;
  const long long end = now_ms() + ms;
  while (now_ms() < end) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, short_thread, &short_ms) != 0) _exit(1);
    pthread_join(thread, NULL);
  }
}

static void daemonize(int ms) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) compute(ms);
    _exit(0);
  }
  wait(NULL);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* how = argv[1];
  const int ms = atoi(argv[2]);
  if (strcmp(how, "compute") == 0)
    compute(ms);
  else if (strcmp(how, "sleep") == 0)
    sleep_ms(ms);
  else if (strcmp(how, "threads") == 0)
    threads(ms);
  else if (strcmp(how, "daemon") == 0)
    daemonize(ms);
  else if (strcmp(how, "exec") == 0) {
    compute(ms);
    execv(argv[3], argv + 3);
    return 127;
  } else
    return 2;
  return 0;
}
