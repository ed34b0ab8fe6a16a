#include "tests/programs/runner/program.hpp"

#include <algorithm>

#include "tests/programs/runner/child_process.hpp"
#include "tests/programs/runner/clocks.hpp"
#include "tests/programs/runner/fail.hpp"
#include "tests/programs/runner/sleeps.hpp"

namespace programs {

namespace {

constexpr std::int64_t kTimedOut = -1;

class Reader {
 public:
  Reader(std::istream& text, const Binaries& binaries) : text_(text), binaries_(binaries) {}

  std::unique_ptr<Program> program() {
    auto program = std::make_unique<Program>();
    program->seed = next<std::uint64_t>();
    const auto channels = next<std::size_t>();
    const auto actors = next<std::size_t>();
    for (std::size_t i = 0; i < channels; ++i) {
      expect_word("channel");
      program->channels.push_back(make_channel(next<std::string>()));
    }
    for (std::size_t i = 0; i < actors; ++i) program->actors.push_back(actor(*program));
    return program;
  }

 private:
  template <class T>
  T next() {
    T value{};
    if (!(text_ >> value)) fail("a program ends early");
    return value;
  }

  void expect_word(const std::string& word) {
    if (const auto found = next<std::string>(); found != word) {
      fail("a program has " + found + " where " + word + " belongs");
    }
  }

  Actor actor(Program& program) {
    expect_word("actor");
    Actor actor{next<std::size_t>(), {}};
    const auto operations = next<std::size_t>();
    for (std::size_t i = 0; i < operations; ++i) actor.operations.push_back(operation(program));
    return actor;
  }

  Channel& channel(Program& program) { return *program.channels.at(next<std::size_t>()); }

  Operation operation(Program& program) {
    const auto name = next<std::string>();
    if (name == "sleep") return sleep();
    if (name == "send") return send(channel(program));
    if (name == "receive") return receive(channel(program));
    if (name == "receive_for") return receive_for(channel(program));
    if (name == "execute") return execute();
    if (name == "spin") return spin();
    if (name == "read_realtime") {
      return [&program] { return now_ns(CLOCK_REALTIME) - program.start->realtime_ns; };
    }
    fail("no operation is called " + name);
  }

  Operation sleep() {
    const Sleep by_means = sleep_called(next<std::string>());
    return [by_means, ns = next<std::int64_t>()] {
      by_means(ns);
      return 0;
    };
  }

  Operation send(Channel& channel) {
    return [&channel, payload = next<std::int64_t>()] {
      channel.send(payload);
      return 0;
    };
  }

  Operation receive(Channel& channel) {
    return [&channel, means = next<std::string>()] { return channel.receive(means); };
  }

  Operation receive_for(Channel& channel) {
    const auto means = next<std::string>();
    return [&channel, means, ns = next<std::int64_t>()] {
      return channel.receive_for(means, ns).value_or(kTimedOut);
    };
  }

  Operation execute() {
    const Starter start = starter_called(next<std::string>());
    const auto kind = next<std::string>();
    if (kind != "static" && kind != "dynamic") fail("no binary is called " + kind);
    const std::string& binary = kind == "static" ? binaries_.static_child : binaries_.dynamic_child;
    return [start, binary, iterations = next<std::string>()] {
      await_success(start(binary, iterations));
      return 0;
    };
  }

  Operation spin() {
    return [iterations = next<std::int64_t>()] {
      for (volatile std::int64_t i = 0; i < iterations;) i = i + 1;
      return 0;
    };
  }

  std::istream& text_;
  const Binaries& binaries_;
};

}  // namespace

std::size_t Program::processes() const {
  std::size_t count = 1;
  for (const Actor& actor : actors) count = std::max(count, actor.process + 1);
  return count;
}

std::unique_ptr<Program> read_program(std::istream& text, const Binaries& binaries) {
  std::string word;
  if (!(text >> word)) return nullptr;
  if (word != "program") fail("a program begins with " + word);
  return Reader(text, binaries).program();
}

}  // namespace programs
