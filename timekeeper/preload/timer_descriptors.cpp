#include "timekeeper/preload/timer_descriptors.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "timekeeper/preload/descriptors.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"

namespace warpserve {

namespace {

// By descriptor number. A program has few, with low numbers.
constexpr unsigned int kMaxNumber = 4096;
struct Entry {
  std::atomic<bool> exists{false};
  TimerDescriptor timer;
};
constinit Entry entries[kMaxNumber];
// Never less than exist: another thread may fork at any moment.
constinit std::atomic<unsigned int> live_count{0};

int fail(int error) {
  errno = error;
  return -1;
}

void end_timer(Entry& entry) {
  if (!entry.exists.exchange(false)) return;
  live_count.fetch_sub(1);
  if (has_timer(entry.timer.index)) drop_descriptor(delete_timer(entry.timer.index).descriptor);
}

}  // namespace

int create_timer_descriptor(clockid_t clock, int flags) {
  static_assert(int{TFD_NONBLOCK} == int{EFD_NONBLOCK} && int{TFD_CLOEXEC} == int{EFD_CLOEXEC});
  const long fd = raw_syscall(SYS_eventfd2, 0, flags);
  if (fd < 0) return fail(static_cast<int>(-fd));
  const long duplicate = fd < kMaxNumber ? raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0) : -EMFILE;
  const int kept = duplicate < 0 ? -EMFILE : keep_descriptor(static_cast<int>(duplicate));
  const TimerIndex index =
      kept < 0
          ? -EMFILE
          : create_timer(
                {.kind = TimerAction::Kind::kWriteDescriptor, .value = {}, .descriptor = kept});
  if (index < 0) {
    drop_descriptor(kept);
    raw_syscall(SYS_close, fd);
    return fail(-index);
  }
  Entry& entry = entries[fd];
  end_timer(entry);
  entry.timer = {index, clock};
  live_count.fetch_add(1);
  entry.exists.store(true);
  return static_cast<int>(fd);
}

const TimerDescriptor* timer_descriptor(int fd) {
  if (fd < 0 || fd >= static_cast<int>(kMaxNumber) || !entries[fd].exists.load()) return nullptr;
  return has_timer(entries[fd].timer.index) ? &entries[fd].timer : nullptr;
}

void forget_expirations(int fd) {
  constexpr timespec kNoTime = {0, 0};
  pollfd polled = {fd, POLLIN, 0};
  std::uint64_t expirations = 0;
  if (raw_syscall(SYS_ppoll, &polled, 1, &kNoTime, nullptr, 0) == 1) {
    raw_syscall(SYS_read, fd, &expirations, sizeof expirations);
  }
}

void timer_descriptors_close(unsigned int first, unsigned int last) {
  if (live_count.load() == 0 || first >= kMaxNumber) return;
  if (raw_syscall(SYS_getpid) != static_cast<long>(member.pid)) return;
  for (unsigned int fd = first; fd <= std::min(last, kMaxNumber - 1); ++fd) end_timer(entries[fd]);
}

void forget_timer_descriptors_after_fork() {
  if (live_count.exchange(0) == 0) return;
  for (Entry& entry : entries) {
    if (entry.exists.load()) entry.exists.store(false);  // a write would copy the page
  }
}

}  // namespace warpserve
