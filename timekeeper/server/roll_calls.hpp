// What the roll calls of a session say, in words.
#pragma once

#include <string>
#include <vector>

#include "timekeeper/shared/roll_call.hpp"

namespace warpserve {

// A line for each place that waits alone for another, and one for each group that lacks some.
std::vector<std::string> describe(const RollCall& call);

// Of all roll calls in the session's folder. None where there is no such file.
std::vector<std::string> roll_call_lines(const std::string& folder);

}  // namespace warpserve
