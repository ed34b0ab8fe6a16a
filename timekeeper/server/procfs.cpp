#include "timekeeper/server/procfs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "timekeeper/server/errors.hpp"

namespace warpserve {
namespace {

// Takes the next blank-separated word off `text`; empty at its end.
std::string_view take_word(std::string_view& text) {
  const auto begin = text.find_first_not_of(" \n");
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  const auto end = std::min(text.find_first_of(" \n"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

template <class Number>
bool parse_number(std::string_view word, Number& number, int base = 10) {
  if (base == 16 && word.starts_with("0x")) word.remove_prefix(2);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
  return error == std::errc{} && end == word.data() + word.size();
}

// Fields of stat, counted from 1 as in proc(5).
constexpr int kFieldParent = 4;
constexpr int kFieldFlags = 9;
constexpr int kFieldStartTime = 22;
constexpr int kFieldStartCode = 26;
constexpr int kFieldEndCode = 27;
constexpr int kFieldStartStack = 28;

bool take_field(TaskStat& stat, int field, std::string_view word) {
  switch (field) {
    case kFieldParent:
      return parse_number(word, stat.parent);
    case kFieldFlags:
      return parse_number(word, stat.flags);
    case kFieldStartTime:
      return parse_number(word, stat.start_time_ticks);
    case kFieldStartCode:
      return parse_number(word, stat.image.start_code);
    case kFieldEndCode:
      return parse_number(word, stat.image.end_code);
    case kFieldStartStack:
      return parse_number(word, stat.image.start_stack);
    default:
      return !word.empty();
  }
}

}  // namespace

std::optional<TaskStat> parse_task_stat(std::string_view text) {
  // The name stands in parentheses and may hold any byte, parentheses and blanks included.
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  TaskStat stat;
  stat.comm = text.substr(open + 1, close - open - 1);
  text.remove_prefix(close + 1);
  const std::string_view state = take_word(text);
  if (state.size() != 1) return {};
  stat.state = state.front();
  for (int field = kFieldParent; field <= kFieldStartStack; ++field) {
    if (!take_field(stat, field, take_word(text))) return {};
  }
  return stat;
}

std::optional<BlockedCall> parse_blocked_call(std::string_view text) {
  BlockedCall call;
  if (!parse_number(take_word(text), call.number)) return {};
  if (call.number >= 0) {
    for (std::uint64_t& argument : call.arguments) {
      if (!parse_number(take_word(text), argument, 16)) return {};
    }
  }
  if (!parse_number(take_word(text), call.stack_pointer, 16)) return {};
  return call;
}

void require_free_descriptors(int error) {
  if (error != EMFILE && error != ENFILE) return;
  throw UsageError(
      "out of file descriptors: watching the session takes up to four for each of its threads; "
      "raise the hard limit (ulimit -Hn) and start again");
}

int ProcFile::open(int directory, const char* path) {
  fd_ = Fd(openat(directory, path, O_RDONLY | O_CLOEXEC));
  if (fd_.valid()) return 0;
  const int error = errno;
  require_free_descriptors(error);
  return -error;
}

ssize_t ProcFile::read(std::span<char> buffer) const {
  const ssize_t count = pread(fd_.get(), buffer.data(), buffer.size(), 0);
  return count < 0 ? -errno : count;
}

std::optional<std::string> read_proc_file(int directory, const std::string& path) {
  const Fd fd(openat(directory, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    require_free_descriptors(errno);
    return {};
  }
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0) return {};
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

bool list_numbers(int directory, std::vector<pid_t>& numbers) {
  // Large enough for a thousand threads in one call, so that the kernel walks its list once.
  alignas(dirent64) static thread_local std::array<char, 32'768> buffer;
  if (lseek(directory, 0, SEEK_SET) < 0) return false;
  for (;;) {
    const long count = syscall(SYS_getdents64, directory, buffer.data(), buffer.size());
    if (count < 0) return false;
    if (count == 0) return true;
    for (long offset = 0; offset < count;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + offset);
      pid_t number = 0;
      if (parse_number(std::string_view(entry->d_name), number)) numbers.push_back(number);
      offset += entry->d_reclen;
    }
  }
}

}  // namespace warpserve
