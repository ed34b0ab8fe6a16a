#pragma once

#include "timekeeper/preload/member.hpp"

namespace warpserve {

// Prepares the process and joins. Not thread-safe.
JoinResult become_member(const char* folder, Line& why);

}  // namespace warpserve
