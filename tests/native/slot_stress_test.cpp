// The wake-up protocol on real threads, processes and futexes, in shared memory.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "tests/native/check.hpp"
#include "timekeeper/shared/slot.hpp"

namespace warpserve {
namespace {

constexpr std::uint32_t kCapacity = 8;
constexpr std::uint32_t kOwners = 4;
constexpr int kWaits = 2'000;
constexpr HostDuration kLostWakeUp = HostDuration::from_ms(20'000);

timespec host_in(HostDuration duration) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto ns = now.tv_nsec + duration.ns();
  return {now.tv_sec + ns / 1'000'000'000, ns % 1'000'000'000};
}

struct Unmap {
  void operator()(Board* board) const { munmap(board, board_bytes(kCapacity)); }
};
using SharedBoard = std::unique_ptr<Board, Unmap>;

SharedBoard make_board() {
  void* memory = mmap(nullptr, board_bytes(kCapacity), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  SharedBoard board(new (memory) Board{});
  new (board->slots()) Slot[kCapacity]{};
  board->capacity = kCapacity;
  return board;
}

// The Timekeeper: fires whatever is pending, and sleeps at the doorbell when nothing is.
void serve(Board& board, const std::function<bool()>& ended) {
  DoorbellListener listener(board);
  while (!ended()) {
    listener.listen(kListeningToAll);
    bool fired = false;
    for (std::uint32_t i = 0; i < board.high_water.load(); ++i) {
      SlotWatcher watcher(board.slots()[i]);
      const auto view = watcher.snapshot();
      if (view && view->target) fired |= watcher.fire(view->generation);
    }
    if (!fired && !ended()) listener.wait_for_ring();
  }
}

// Waits again and again; every fourth time it leaves at once, as for another event. Returns how
// many waits ended as they must not.
int wait_often(Board& board, std::uint32_t pid, std::uint32_t tid, int waits) {
  auto owner = SlotOwner::claim_any(board, pid, tid, SlotKind::kWait);
  if (!owner) return waits;
  int wrong = 0;
  for (int i = 0; i < waits; ++i) {
    const bool leaves_early = i % 4 == 0;
    const timespec deadline = host_in(leaves_early ? HostDuration() : kLostWakeUp);
    const ArmedWait wait = owner->arm(VirtualTime::from_ns(i));
    ring_if_listened_to(board, tid);
    Woken woken = owner->park(wait, &deadline);
    while (woken == Woken::kBySignal) woken = owner->park(wait, &deadline);
    const Disarmed disarmed = owner->disarm(wait);
    const bool was_fired = disarmed == Disarmed::kFired;
    const bool right = leaves_early ? (was_fired || woken == Woken::kByHostDeadline)
                                    : (was_fired && woken == Woken::kByTimekeeper);
    if (!right) ++wrong;
  }
  owner->release();
  return wrong;
}

void check_all_free(Board& board) {
  for (std::uint32_t i = 0; i < kCapacity; ++i) {
    CHECK(!SlotWatcher(board.slots()[i]).snapshot().has_value());
    CHECK_EQ(board.slots()[i].pid.load(), 0U);
  }
}

TEST(threads_wait_and_are_fired) {
  const auto board = make_board();
  std::atomic<std::uint32_t> done = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> owners;
  for (std::uint32_t i = 0; i < kOwners; ++i) {
    owners.emplace_back([&, i] {
      wrong += wait_often(*board, 1, i + 1, kWaits);
      ++done;
      ring(*board);
    });
  }
  serve(*board, [&] { return done == kOwners; });
  owners.clear();
  CHECK_EQ(wrong.load(), 0);
  CHECK(board->high_water.load() >= 1U);
  CHECK(board->high_water.load() <= kOwners);
  check_all_free(*board);
}

// Owners in processes of their own. `warnings[0]` of the board counts those that have ended.
TEST(processes_wait_and_are_fired) {
  const auto board = make_board();
  std::vector<pid_t> children;
  for (std::uint32_t i = 0; i < kOwners; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const int wrong = wait_often(*board, static_cast<std::uint32_t>(getpid()), i + 1, kWaits);
      board->warnings[0].fetch_add(1);
      ring(*board);
      _exit(wrong == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  serve(*board, [&] { return board->warnings[0].load() == kOwners; });
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
  }
  check_all_free(*board);
}

// kill -9 at whatever moment; the slot is freed and no wait is left behind.
TEST(killed_processes_leave_nothing) {
  const auto board = make_board();
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      const auto pid = static_cast<std::uint32_t>(getpid());
      for (;;) wait_often(*board, pid, pid, 3);
    }
    const auto pid = static_cast<std::uint32_t>(child);
    int looks = 0;
    // Each child is killed after another number of looks.
    serve(*board, [&] { return looks++ >= 2 * round; });
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (std::uint32_t i = 0; i < kCapacity; ++i) SlotWatcher(board->slots()[i]).reclaim(pid);
    check_all_free(*board);
  }
}

TEST(a_full_board_says_so) {
  const auto board = make_board();
  std::vector<SlotOwner> owners;
  for (std::uint32_t i = 0; i < kCapacity; ++i) {
    const auto owner = SlotOwner::claim_any(*board, 1, i + 1, SlotKind::kHold);
    REQUIRE(owner.has_value());
    owners.push_back(*owner);
  }
  CHECK(!SlotOwner::claim_any(*board, 1, 99, SlotKind::kWait).has_value());
  CHECK_EQ(board->high_water.load(), kCapacity);
  owners[5].release();
  const auto again = SlotOwner::claim_any(*board, 2, 99, SlotKind::kActor);
  REQUIRE(again.has_value());
  const auto view = SlotWatcher(board->slots()[5]).snapshot();
  REQUIRE(view.has_value());
  CHECK_EQ(view->pid, 2U);
  CHECK_EQ(view->tid, 99U);
  CHECK_EQ(view->kind, SlotKind::kActor);
  CHECK_EQ(view->target, std::nullopt);
}

TEST(claims_of_many_threads_never_share_a_slot) {
  const auto board = make_board();
  std::vector<Slot*> claimed(kCapacity);
  std::vector<std::jthread> threads;
  for (std::uint32_t i = 0; i < kCapacity; ++i) {
    threads.emplace_back([&, i] {
      const auto owner = SlotOwner::claim_any(*board, 1, i + 1, SlotKind::kWait);
      if (owner) claimed[i] = &owner->slot();
    });
  }
  threads.clear();
  for (std::uint32_t i = 0; i < kCapacity; ++i) {
    REQUIRE(claimed[i] != nullptr);
    CHECK_EQ(claimed[i]->tid.load(), i + 1);
  }
}

}  // namespace
}  // namespace warpserve
