#include "cuda_shim/memory/process.hpp"

#include <fstream>
#include <sstream>
#include <string>

namespace warpserve::gpu {

std::optional<std::uint64_t> process_start(std::uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The name, field 2, is in parentheses and may hold any character.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  char state = 0;
  fields >> state;
  if (state == 'Z' || state == 'X') return std::nullopt;
  constexpr int kStartField = 22;
  std::string skipped;
  for (int field = 4; field < kStartField; ++field) fields >> skipped;
  std::uint64_t start = 0;
  if (!(fields >> start)) return std::nullopt;
  return start;
}

}  // namespace warpserve::gpu
