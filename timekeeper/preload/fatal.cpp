#include "timekeeper/preload/fatal.hpp"

#include <sys/uio.h>

#include <cstring>

#include "timekeeper/preload/raw_syscall.hpp"

namespace warpserve {

Line& Line::operator<<(const char* text) {
  while (*text != '\0' && bytes_ + 1 < kMaxBytes) text_[bytes_++] = *text++;
  return *this;
}

Line& Line::operator<<(long number) {
  char digits[24];
  char* first = digits + sizeof digits - 1;
  *first = '\0';
  const bool negative = number < 0;
  auto rest =
      negative ? 0UL - static_cast<unsigned long>(number) : static_cast<unsigned long>(number);
  do {
    *--first = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (negative) *--first = '-';
  return *this << first;
}

void say(const char* text) {
  char prefix[] = "warpserve: ";
  char newline[] = "\n";
  iovec parts[] = {
      {prefix, sizeof prefix - 1}, {const_cast<char*>(text), strlen(text)}, {newline, 1}};
  raw_syscall(SYS_writev, 2, parts, 3);
}

void exit_not_a_member() {
  raw_syscall(SYS_exit_group, kExitNotAMember);
  __builtin_unreachable();
}

}  // namespace warpserve
