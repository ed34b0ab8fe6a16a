#include "tests/native/watch/session.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/native/check.hpp"

namespace scene {
namespace {

constexpr int kLooks = 20'000;
constexpr std::chrono::microseconds kBetweenLooks{500};

void end_descendants() {
  warpserve::ProcessWatch watch(getpid());
  for (;;) {
    watch.look();
    const auto left = watch.picture();
    if (left.empty()) return;
    for (const auto& process : left) kill(process.pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

}  // namespace

void as_timekeeper(const std::function<void()>& body) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const int before = check::failures();
    try {
      body();
    } catch (const check::TestEnded&) {
      // REQUIRE has recorded the failure.
    } catch (const std::exception& error) {
      check::fail(__FILE__, __LINE__, std::string("exception: ") + error.what());
    }
    end_descendants();
    std::cout.flush();
    _exit(check::failures() == before ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK_EQ(status, 0);
}

pid_t start(const std::function<void()>& body) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(0);
}

pid_t start_program(const std::vector<std::string>& command) {
  return start([&] {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(arguments.front(), arguments.data());
    _exit(127);
  });
}

void end(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

void spin() {
  for (volatile unsigned turns = 0;;) turns = turns + 1;
}

void sleep_for_ever() {
  const Pipe never;
  never.await();
  abort();
}

void pause_host(std::chrono::microseconds time) {
  const timespec duration{.tv_sec = static_cast<time_t>(time.count() / 1'000'000),
                          .tv_nsec = static_cast<long>(time.count() % 1'000'000 * 1'000)};
  nanosleep(&duration, nullptr);
}

bool settles(warpserve::ProcessWatch& watch) {
  for (int i = 0; i < kLooks; ++i) {
    if (watch.look().settled()) return true;
    pause_host(kBetweenLooks);
  }
  const warpserve::Look look = watch.look();
  if (look.busy) check::fail(__FILE__, __LINE__, "still busy: " + describe(*look.busy));
  return look.settled();
}

std::optional<warpserve::Busy> busy_until(
    warpserve::ProcessWatch& watch, const std::function<bool(const warpserve::Busy&)>& wanted) {
  for (int i = 0; i < kLooks; ++i) {
    const warpserve::Look look = watch.look();
    if (look.busy && wanted(*look.busy)) return look.busy;
    pause_host(kBetweenLooks);
  }
  return {};
}

Pipe::Pipe() {
  int ends[2] = {-1, -1};
  REQUIRE(pipe(ends) == 0);
  read_end = warpserve::Fd(ends[0]);
  write_end = warpserve::Fd(ends[1]);
}

void Pipe::signal() const {
  const char byte = 1;
  if (write(write_end.get(), &byte, 1) != 1) abort();
}

void Pipe::await() const {
  char byte = 0;
  if (read(read_end.get(), &byte, 1) != 1) abort();
}

}  // namespace scene
