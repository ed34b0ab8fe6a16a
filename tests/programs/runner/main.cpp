// runner PROGRAMS RESULTS STATIC_CHILD DYNAMIC_CHILD: runs the programs one after the other.
//
// RESULTS has a line "program SEED" when one begins and, for each actor, a line "actor" with pairs
// TIME:VALUE, one an operation, when it has ended.
#include <fstream>

#include "tests/programs/runner/execution.hpp"
#include "tests/programs/runner/fail.hpp"
#include "tests/programs/runner/program.hpp"

int main(int argc, char** argv) {
  using namespace programs;
  if (argc != 5) fail("usage: runner PROGRAMS RESULTS STATIC_CHILD DYNAMIC_CHILD");
  std::ifstream text(argv[1]);
  std::ofstream results(argv[2]);
  const Binaries binaries = {argv[3], argv[4]};
  if (!text || !results) fail("a file does not open");
  while (const auto program = read_program(text, binaries)) {
    results << "program " << program->seed << std::endl;
    for (const auto& records : run(*program)) {
      results << "actor";
      for (const Record& record : records) results << ' ' << record.time_ns << ':' << record.value;
      results << '\n';
    }
  }
  results << "end" << std::endl;
  return 0;
}
