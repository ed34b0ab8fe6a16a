#include "timekeeper/preload/wait.hpp"

#include <fcntl.h>
#include <linux/futex.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "timekeeper/preload/fatal.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/scratch.hpp"
#include "timekeeper/preload/thread_state.hpp"

namespace warpserve {

namespace {

// With a deadline, however far, the kernel ends a futex wait with EINTR after any signal handler;
// without one it would restart the wait after handlers with SA_RESTART.
constexpr timespec kFarDeadline = {9'000'000'000, 0};
constexpr timespec kNapAfterTheEnd = {0, 10 * kNsPerMs};
constexpr timespec kNoTime = {0, 0};

bool has_passed(VirtualTime target) {
  return virtual_now() >= target;
}

bool is_over() {
  if (__builtin_expect(!virtual_clock().ended(), 1)) return false;
  raw_syscall(SYS_nanosleep, &kNapAfterTheEnd, nullptr);
  return true;
}

// The host's CLOCK_MONOTONIC at which a wait is over without a jump.
timespec host_deadline(VirtualTime target) {
  if (virtual_clock().stands_still()) return kFarDeadline;
  return timespec_of(std::min(virtual_clock().host_instant_of(target).ns(), ns_of(kFarDeadline)));
}

// The same from now on, for poll: null where it has none.
const timespec* host_timeout(VirtualTime target, timespec& storage) {
  if (target == kNever || virtual_clock().stands_still()) return nullptr;
  const std::int64_t ns = (target - virtual_now()).ns();
  storage = timespec_of(std::max<std::int64_t>(ns, 0));
  return &storage;
}

long futex_wait_either(const FutexWord& word, const SlotOwner& slot, ArmedWait wait,
                       const timespec& deadline) {
  // The kernel returns the last one that was woken: a wake-up of the program's word is not lost
  // where the slot fires at the same moment.
  futex_waitv waits[2] = {};
  waits[0].uaddr = reinterpret_cast<std::uintptr_t>(&slot.slot().state);
  waits[0].val = wait.word();
  waits[0].flags = FUTEX_32;
  waits[1].uaddr = reinterpret_cast<std::uintptr_t>(word.address);
  waits[1].val = word.expected;
  waits[1].flags = FUTEX_32 | (word.is_private ? FUTEX_PRIVATE_FLAG : 0U);
  return raw_syscall(SYS_futex_waitv, waits, 2, 0, &deadline, CLOCK_MONOTONIC);
}

bool is_as_expected(const FutexWord& word) {
  return __atomic_load_n(static_cast<const std::uint32_t*>(word.address), __ATOMIC_SEQ_CST) ==
         word.expected;
}

WaitEnd wait_until_woken(const FutexWord& word) {
  ring_before_blocking();
  const int operation = FUTEX_WAIT_BITSET | (word.is_private ? FUTEX_PRIVATE_FLAG : 0);
  const long result = raw_syscall(SYS_futex, word.address, operation, word.expected, &kFarDeadline,
                                  nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result == -EINTR) return WaitEnd::kInterrupted;
  return result == -EAGAIN ? WaitEnd::kChanged : WaitEnd::kWoken;
}

WaitEnd sleep_until_either(VirtualTime target, const FutexWord& word, const SlotOwner& slot,
                           ArmedWait wait) {
  while (slot.pending(wait)) {
    switch (futex_wait_either(word, slot, wait, host_deadline(target))) {
      case 1:
        return WaitEnd::kWoken;
      case 0:
        break;
      case -EAGAIN:
        if (!is_as_expected(word)) return WaitEnd::kChanged;
        break;
      case -EINTR:
        return WaitEnd::kInterrupted;
      case -ETIMEDOUT:
        if (has_passed(target)) return WaitEnd::kReached;
        break;
      case -ENOSYS:
        die("the kernel has no futex_waitv (it came with Linux 5.16)");
      default:
        return WaitEnd::kChanged;  // a bad address: the caller's own system call says so
    }
  }
  return WaitEnd::kReached;
}

void drain(int eventfd) {
  std::uint64_t value = 0;
  raw_syscall(SYS_read, eventfd, &value, sizeof value);
}

int fail(int error) {
  errno = error;
  return -1;
}

// A wait on descriptors: `block` is the blocking call of the program's plus our eventfd; it returns
// what the program is to see, and says in `woken` and `lost` what became of the eventfd.
template <class Block>
int wait_with_descriptors(VirtualTime target, const char* label, Block block) {
  SlotLease lease(label);
  while (true) {
    const int wake_fd = lease.wake_fd();
    if (wake_fd < 0) return 0;
    const ArmedWait wait = lease.slot().arm(target, WakeBy::kEventFd);
    ring_before_blocking();
    timespec storage;
    bool lost = false;
    bool woken = false;
    int ready = 0;
    do {
      ready = block(wake_fd, host_timeout(target, storage), woken, lost);
      if (woken) drain(wake_fd);
    } while (ready == 0 && !lost && lease.slot().pending(wait) && !has_passed(target));
    lease.slot().disarm(wait);
    if (!lost) return ready;
    lease.lose_wake_fd();
  }
}

}  // namespace

WaitEnd wait_until(VirtualTime target, const char* label) {
  notice_fork();
  if (has_passed(target) || is_over()) return WaitEnd::kReached;
  if (target == kNever) {
    ring_before_blocking();
    raw_syscall(SYS_ppoll, nullptr, 0, nullptr, nullptr, 0);
    return WaitEnd::kInterrupted;
  }
  SlotLease lease(label);
  const ArmedWait wait = lease.slot().arm(target);
  ring_before_blocking();
  Woken woken = Woken::kByTimekeeper;
  do {
    const timespec deadline = host_deadline(target);
    woken = lease.slot().park(wait, &deadline);
  } while (woken == Woken::kByHostDeadline && !has_passed(target));
  const bool fired = lease.slot().disarm(wait) == Disarmed::kFired;
  return fired || woken != Woken::kBySignal ? WaitEnd::kReached : WaitEnd::kInterrupted;
}

void settle(const char* label) {
  notice_fork();
  if (!virtual_clock().stands_still() || is_over()) return;
  SlotOwner slot = claim_slot(SlotKind::kSettle);
  set_label(slot, label);
  const ArmedWait wait = slot.arm(virtual_now());
  ring_before_blocking();
  while (slot.park(wait) == Woken::kBySignal) continue;
  slot.release();
}

WaitEnd wait_until_or_woken(VirtualTime target, const FutexWord& word, const char* label) {
  notice_fork();
  if (!is_as_expected(word)) return WaitEnd::kChanged;
  if (has_passed(target) || is_over()) return WaitEnd::kReached;
  if (target == kNever) return wait_until_woken(word);
  SlotLease lease(label);
  return wait_in_slot(lease.slot(), target, word);
}

WaitEnd wait_in_slot(SlotOwner& slot, VirtualTime target, const FutexWord& word) {
  const ArmedWait wait = slot.arm(target);
  ring_before_blocking();
  const WaitEnd end = sleep_until_either(target, word, slot, wait);
  slot.disarm(wait);
  return end;
}

int wait_until_or_ready(VirtualTime target, pollfd* fds, nfds_t count, const sigset_t* mask,
                        const char* label) {
  notice_fork();
  const int ready_now = real().ppoll(fds, count, &kNoTime, mask);
  if (ready_now != 0 || has_passed(target) || is_over()) return ready_now;
  if (target == kNever) {
    ring_before_blocking();
    return real().ppoll(fds, count, nullptr, mask);
  }
  constexpr std::size_t kInlineDescriptors = 64;
  Scratch<pollfd, kInlineDescriptors> polled(count + 1);
  if (polled.data() == nullptr) return fail(ENOMEM);
  std::copy_n(fds, count, polled.data());
  // Our eventfd stands in for an entry that the kernel ignores, else behind all: poll takes no more
  // of them than RLIMIT_NOFILE, which the program may have used up.
  const auto place = static_cast<nfds_t>(
      std::find_if(fds, fds + count, [](const pollfd& entry) { return entry.fd < 0; }) - fds);
  const nfds_t polled_count = std::max(count, place + 1);

  return wait_with_descriptors(
      target, label, [&](int wake_fd, const timespec* timeout, bool& woken, bool& lost) {
        pollfd& own = polled.data()[place];
        own = {wake_fd, POLLIN, 0};
        const int ready = real().ppoll(polled.data(), polled_count, timeout, mask);
        if (ready < 0) return ready;
        woken = (own.revents & POLLIN) != 0;
        lost = (own.revents & POLLNVAL) != 0;
        const int ready_of_program = ready - (own.revents != 0 ? 1 : 0);
        own.revents = 0;
        for (nfds_t i = 0; i < count; ++i) fds[i].revents = polled.data()[i].revents;
        return ready_of_program;
      });
}

namespace {

// The three sets of a select, widened so that our eventfd fits into the first.
class WideSets {
 public:
  static constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  static constexpr std::size_t kInlineWords = 3 * 72;  // descriptors up to 4,608

  WideSets(int count, int wake_fd, fd_set* const (&sets)[3])
      : count_(count),
        wake_fd_(wake_fd),
        words_(static_cast<std::size_t>(std::max(count, wake_fd + 1) - 1) / kBits + 1),
        storage_(3 * words_),
        sets_{sets[0], sets[1], sets[2]} {
    if (storage_.data() == nullptr) return;
    memset(storage_.data(), 0, 3 * words_ * sizeof(unsigned long));
    for (std::size_t i = 0; i < 3; ++i) {
      if (sets_[i] != nullptr) memcpy(wide(i), sets_[i], user_bytes());
    }
    wide(0)[wake_word()] |= wake_bit();
  }

  bool valid() { return storage_.data() != nullptr; }

  int select(const timespec* timeout, const sigset_t* mask, bool& woken) {
    const int ready = real().pselect(std::max(count_, wake_fd_ + 1), as_set(0), as_set(1),
                                     as_set(2), timeout, mask);
    if (ready < 0) return ready;
    woken = (wide(0)[wake_word()] & wake_bit()) != 0;
    wide(0)[wake_word()] &= ~wake_bit();
    return ready - (woken ? 1 : 0);
  }

  void copy_back() {
    for (std::size_t i = 0; i < 3; ++i) {
      if (sets_[i] != nullptr) memcpy(sets_[i], wide(i), user_bytes());
    }
  }

  static std::size_t bytes_for(int count) {
    return (static_cast<std::size_t>(count) + kBits - 1) / kBits * sizeof(unsigned long);
  }

 private:
  std::size_t user_bytes() const { return bytes_for(count_); }
  std::size_t wake_word() const { return static_cast<std::size_t>(wake_fd_) / kBits; }
  unsigned long wake_bit() const { return 1UL << (static_cast<std::size_t>(wake_fd_) % kBits); }
  unsigned long* wide(std::size_t i) { return storage_.data() + i * words_; }
  fd_set* as_set(std::size_t i) { return reinterpret_cast<fd_set*>(wide(i)); }

  const int count_;
  const int wake_fd_;
  const std::size_t words_;
  Scratch<unsigned long, kInlineWords> storage_;
  fd_set* const sets_[3];
};

}  // namespace

int wait_until_or_selected(VirtualTime target, int count, fd_set* readable, fd_set* writable,
                           fd_set* exceptional, const sigset_t* mask, const char* label) {
  notice_fork();
  if (count < 0) return fail(EINVAL);
  if (has_passed(target) || is_over()) {
    return real().pselect(count, readable, writable, exceptional, &kNoTime, mask);
  }
  if (target == kNever) {
    ring_before_blocking();
    return real().pselect(count, readable, writable, exceptional, nullptr, mask);
  }
  fd_set* const sets[3] = {readable, writable, exceptional};
  const int result = wait_with_descriptors(
      target, label, [&](int wake_fd, const timespec* timeout, bool& woken, bool& lost) {
        WideSets wide(count, wake_fd, sets);
        if (!wide.valid()) return fail(ENOMEM);
        const int ready = wide.select(timeout, mask, woken);
        if (ready < 0) {
          lost = errno == EBADF && raw_syscall(SYS_fcntl, wake_fd, F_GETFD) == -EBADF;
          return ready;
        }
        if (ready > 0) wide.copy_back();
        return ready;
      });
  if (result == 0) {
    for (fd_set* set : sets) {
      if (set != nullptr) memset(set, 0, WideSets::bytes_for(count));
    }
  }
  return result;
}

}  // namespace warpserve
