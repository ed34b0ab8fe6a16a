// A program and its text form, which tests/programs/model.py writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/programs/runner/channel.hpp"
#include "tests/programs/runner/shared.hpp"

namespace programs {

// Does the operation; returns what the record of it holds as its value (model.py, Record).
using Operation = std::function<std::int64_t()>;

// When the program began, on its two clocks.
struct Start {
  std::int64_t monotonic_ns = 0;
  std::int64_t realtime_ns = 0;
};

struct Actor {
  std::size_t process;
  std::vector<Operation> operations;
};

struct Program {
  std::uint64_t seed;
  std::vector<std::unique_ptr<Channel>> channels;  // open; the operations refer to them
  std::vector<Actor> actors;
  Shared<Start> start;

  std::size_t processes() const;
};

// The programs that `execute` runs.
struct Binaries {
  std::string static_child;
  std::string dynamic_child;
};

// The next program, ready to run; null at the end.
std::unique_ptr<Program> read_program(std::istream& text, const Binaries& binaries);

}  // namespace programs
