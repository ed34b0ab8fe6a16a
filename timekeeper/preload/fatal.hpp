// The library's messages on stderr: one line, "warpserve: …", without libc's streams or the heap.
#pragma once

#include <cstddef>

namespace warpserve {

// A process that should be a member and cannot be.
inline constexpr int kExitNotAMember = 97;

// The parts of a line, collected on the stack; too long a line is cut.
class Line {
 public:
  Line& operator<<(const char* text);
  Line& operator<<(long number);
  const char* c_str() const { return text_; }

 private:
  static constexpr std::size_t kMaxBytes = 512;
  std::size_t bytes_ = 0;
  char text_[kMaxBytes] = {};
};

void say(const char* text);

template <class... Parts>
void say(Parts... parts) {
  Line line;
  (line << ... << parts);
  say(line.c_str());
}

[[noreturn]] void exit_not_a_member();

// Says why and ends the process: it must not go on at host time unnoticed.
template <class... Parts>
[[noreturn]] void die(Parts... parts) {
  say(parts...);
  exit_not_a_member();
}

}  // namespace warpserve
