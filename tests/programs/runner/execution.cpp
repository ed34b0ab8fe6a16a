#include "tests/programs/runner/execution.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "tests/programs/runner/child_process.hpp"
#include "tests/programs/runner/clocks.hpp"
#include "tests/programs/runner/descriptors.hpp"
#include "tests/programs/runner/fail.hpp"
#include "tests/programs/runner/shared.hpp"

namespace programs {

namespace {

constexpr std::size_t kMaxActors = 16;
constexpr std::size_t kMaxOperations = 256;

// Where all processes of a program write.
using Board = std::array<std::array<Record, kMaxOperations>, kMaxActors>;

// A line at which all actors wait until the last one is there.
class StartLine {
 public:
  StartLine() : StartLine(pipe(), pipe()) {}

  void await_start() {
    const char here = 0;
    expect(write(ready_.writer.get(), &here, 1) == 1, "write to the start line");
    char go = 0;
    expect(read(go_.reader.get(), &go, 1) == 1, "read from the start line");
  }

  void await_actors(std::size_t count) {
    std::string here(count, '\0');
    for (std::size_t seen = 0; seen < count;) {
      seen += static_cast<std::size_t>(
          must(read(ready_.reader.get(), here.data(), count - seen), "read at the start line"));
    }
  }

  // One write, so that all start at one instant.
  void start(std::size_t count) {
    const std::string go(count, '\0');
    expect(write(go_.writer.get(), go.data(), count) == static_cast<ssize_t>(count),
           "write at the start line");
  }

 private:
  struct Pipe {
    Descriptor reader;
    Descriptor writer;
  };

  static Pipe pipe() {
    int fds[2];
    must(pipe2(fds, O_CLOEXEC), "pipe2");
    return {Descriptor(fds[0]), Descriptor(fds[1])};
  }

  StartLine(Pipe ready, Pipe go) : ready_(std::move(ready)), go_(std::move(go)) {}

  Pipe ready_;
  Pipe go_;
};

class Execution {
 public:
  explicit Execution(Program& program) : program_(program) {
    expect(program.actors.size() <= kMaxActors, "a program has too many actors");
    for (const Actor& actor : program.actors) {
      expect(actor.operations.size() <= kMaxOperations, "an actor has too many operations");
    }
  }

  std::vector<std::vector<Record>> run() {
    std::vector<pid_t> others;
    for (std::size_t process = 1; process < program_.processes(); ++process) {
      others.push_back(fork_process(process));
    }
    {
      const std::vector<std::jthread> own = start_actors(0);
      line_.await_actors(program_.actors.size());
      *program_.start = {now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_REALTIME)};
      line_.start(program_.actors.size());
    }
    for (const pid_t pid : others) await_success(pid);
    return records();
  }

 private:
  pid_t fork_process(std::size_t process) {
    const pid_t pid = must(fork(), "fork");
    if (pid != 0) return pid;
    start_actors(process);  // and joins them
    _exit(0);
  }

  std::vector<std::jthread> start_actors(std::size_t process) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < program_.actors.size(); ++i) {
      if (program_.actors[i].process == process) threads.emplace_back([this, i] { act(i); });
    }
    return threads;
  }

  void act(std::size_t index) {
    line_.await_start();
    const auto& operations = program_.actors[index].operations;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const std::int64_t value = operations[i]();
      (*board_)[index][i] = {now_ns(CLOCK_MONOTONIC) - program_.start->monotonic_ns, value};
    }
  }

  std::vector<std::vector<Record>> records() {
    std::vector<std::vector<Record>> result;
    for (std::size_t i = 0; i < program_.actors.size(); ++i) {
      const auto& all = (*board_)[i];
      result.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(
                                                         program_.actors[i].operations.size()));
    }
    return result;
  }

  Program& program_;
  StartLine line_;
  Shared<Board> board_;
};

}  // namespace

std::vector<std::vector<Record>> run(Program& program) {
  return Execution(program).run();
}

}  // namespace programs
