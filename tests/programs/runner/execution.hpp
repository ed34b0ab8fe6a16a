// Runs one program: its processes, its threads, its start at one instant.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/programs/runner/program.hpp"

namespace programs {

// What an operation left behind (model.py, Record).
struct Record {
  std::int64_t time_ns;
  std::int64_t value;
};

// The records by actor, by operation. Called while no other thread runs.
std::vector<std::vector<Record>> run(Program& program);

}  // namespace programs
