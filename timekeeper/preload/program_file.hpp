// What a program to be started is, told from its file. Async-signal-safe: used between vfork and
// exec.
#pragma once

namespace warpserve {

// Counts, and says on stderr, that a static binary is about to start: it cannot load this library.
// Follows one "#!" line. `name` without a slash is looked up in `search_path`, where that is not
// null.
void warn_if_static(const char* name, const char* search_path);

}  // namespace warpserve
