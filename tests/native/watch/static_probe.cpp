// A program that can't load our library, for tests: linked statically.
//   static_probe compute | sleep MILLISECONDS | wait
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void compute() {
  for (volatile unsigned turns = 0;;) turns = turns + 1;
}

void sleep_ms(long milliseconds) {
  const timespec duration{.tv_sec = milliseconds / 1'000,
                          .tv_nsec = milliseconds % 1'000 * 1'000'000};
  nanosleep(&duration, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "compute") == 0) compute();
  if (argc == 2 && std::strcmp(argv[1], "wait") == 0) return pause();
  if (argc == 3 && std::strcmp(argv[1], "sleep") == 0) {
    sleep_ms(std::atol(argv[2]));
    return 0;
  }
  return 2;
}
