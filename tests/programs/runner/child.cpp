// A program that computes for argv[1] rounds, without waiting for anything. Built twice: dynamic,
// so that it joins the session, and static, so that it can't.
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const long rounds = std::atol(argv[1]);
  for (volatile long i = 0; i < rounds;) i = i + 1;
  return 0;
}
