// What the Timekeeper reads in /proc, parsed. Formats: proc(5) and fs/proc/array.c of Linux.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "timekeeper/server/fd.hpp"

namespace warpserve {

// Tells one program from the next in the same process: exec changes the address of the stack.
// All zero where the kernel hides it from us.
struct ProgramImage {
  std::uint64_t start_code = 0;
  std::uint64_t end_code = 0;
  std::uint64_t start_stack = 0;
  bool operator==(const ProgramImage&) const = default;
};

// /proc/P/stat or /proc/P/task/T/stat.
struct TaskStat {
  std::string comm;
  char state = '?';
  pid_t parent = 0;
  std::uint64_t flags = 0;
  std::uint64_t start_time_ticks = 0;
  ProgramImage image;
};
std::optional<TaskStat> parse_task_stat(std::string_view text);

// /proc/P/task/T/syscall of a thread that is off the run queue.
struct BlockedCall {
  long number = -1;  // -1: blocked outside of a system call, in a page fault for example
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t stack_pointer = 0;
};
// Nothing for a thread that the kernel calls "running".
std::optional<BlockedCall> parse_blocked_call(std::string_view text);

// Throws UsageError, with the remedy, if `error` says that no descriptor is left. Whoever goes on
// without one would overlook somebody.
void require_free_descriptors(int error);

// A file in /proc that stays open: its descriptor belongs to this very task, so that reads fail
// with ESRCH after its end even where the number is in use again.
class ProcFile {
 public:
  bool is_open() const { return fd_.valid(); }
  // 0 or -errno. Throws UsageError when out of descriptors.
  int open(int directory, const char* path);
  // Reads from the start. Returns the bytes read, or -errno.
  ssize_t read(std::span<char> buffer) const;

 private:
  Fd fd_;
};

// The whole file, or nothing if it can't be read. Throws UsageError when out of descriptors.
std::optional<std::string> read_proc_file(int directory, const std::string& path);

// Appends the names in the directory that are numbers. False if it can't be read.
bool list_numbers(int directory, std::vector<pid_t>& numbers);

}  // namespace warpserve
