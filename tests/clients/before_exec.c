/* A child that spends host time between fork (or vfork) and exec, by raw system calls only.
 *
 *   before_exec fork|vfork compute|sleep MS   waits for the child, prints the virtual ns that
 * passed
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long raw(long number, long a, long b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}

enum { kNanosleep = 35, kClockGettime = 228 };

static long long host_ms(void) {
  struct timespec now;
  raw(kClockGettime, CLOCK_MONOTONIC, (long)&now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void spend(const char* how, int ms) {
  if (strcmp(how, "sleep") == 0) {
    struct timespec duration = {ms / 1000, ms % 1000 * 1000000L};
    raw(kNanosleep, (long)&duration, 0);
    return;
  }
  const long long end = host_ms() + ms;
  while (host_ms() < end) {
  }
}

static long long virtual_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const long long started_ns = virtual_ns(), started_host_ms = host_ms();
  const int ms = atoi(argv[3]);
  const pid_t child = strcmp(argv[1], "vfork") == 0 ? vfork() : fork();
  if (child == 0) {
    spend(argv[2], ms);
    execl("/bin/true", "true", (char*)NULL);
    _exit(127);
  }
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  if (host_ms() - started_host_ms < ms) return 3;
  printf("%lld\n", virtual_ns() - started_ns);
  return 0;
}
