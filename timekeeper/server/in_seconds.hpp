// Nanoseconds as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace warpserve {

// As in "1.500000000 s". Integers throughout: a double is off by nanoseconds after 104 days.
inline std::string in_seconds(std::int64_t ns) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  constexpr std::size_t kDigits = 9;
  // Apart, as the lowest value has no opposite.
  const std::int64_t seconds = ns / kNsPerSecond;
  const std::int64_t rest = ns % kNsPerSecond;
  const std::string digits = std::to_string(rest < 0 ? -rest : rest);
  return (ns < 0 ? "-" : "") + std::to_string(seconds < 0 ? -seconds : seconds) + "." +
         std::string(kDigits - digits.size(), '0') + digits + " s";
}

}  // namespace warpserve
