// The wake-up protocol: how a thread waits in a slot of the board, how the Timekeeper wakes it, and
// how the Timekeeper learns that a thread goes to sleep (the doorbell).
//
// Who may call what, concurrently:
//
//   SlotOwner          one thread, the one that claimed the slot. At most one wait at a time; a
//                      signal handler that waits claims a slot of its own. kill -9 may end the
//                      owner between any two operations.
//   SlotWatcher        `snapshot` anybody; `fire` and `reclaim` one thread, the Timekeeper's.
//   ring_if_listened_to, ring   anybody.
//   DoorbellListener   one thread, the Timekeeper's.
//
// The transitions of the state word (g is the generation):
//
//   claim    free g -> idle g          the owner, after it has put its pid where there was 0
//   arm      idle g -> waiting g+1     the owner, after it has written the target
//   disarm   waiting g -> idle g       the owner, by compare-exchange: the wait was cancelled
//            fired g -> idle g         the owner, where the exchange failed: it had been fired
//   fire     waiting g -> fired g      the Timekeeper, by compare-exchange on the g it looked at
//   release  idle g -> free g          the owner; then pid := 0
//   reclaim  anything g -> free g      the Timekeeper, once the owner is dead; then pid := 0
//
// The generation survives release and reclaim, so a firing that comes late cannot hit another wait,
// not even the next owner's; only 2^29 arms between look and firing could deceive it.
// tests/native/slot_model_test.cpp runs all interleavings of these, deaths included.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "timekeeper/core/types.hpp"
#include "timekeeper/shared/contract.hpp"
#include "timekeeper/shared/sync.hpp"

namespace warpserve {

// The state word, unpacked. The only place with bit arithmetic.
struct SlotState {
  static constexpr std::uint32_t kPhaseBits = 3;
  static constexpr std::uint32_t kPhaseMask = (1U << kPhaseBits) - 1;
  static constexpr std::uint32_t kGenerationMask = 0xffffffffU >> kPhaseBits;

  SlotPhase phase = SlotPhase::kFree;
  std::uint32_t generation = 0;

  static constexpr SlotState unpack(std::uint32_t word) {
    return {static_cast<SlotPhase>(word & kPhaseMask), word >> kPhaseBits};
  }
  constexpr std::uint32_t pack() const {
    return generation << kPhaseBits | static_cast<std::uint32_t>(phase);
  }
  constexpr SlotState in(SlotPhase next) const { return {next, generation}; }
  constexpr SlotState armed() const {
    return {SlotPhase::kWaiting, (generation + 1) & kGenerationMask};
  }
  constexpr bool operator==(const SlotState&) const = default;
};

// One arming of a slot; what its owner waits with.
class ArmedWait {
 public:
  constexpr explicit ArmedWait(std::uint32_t generation) : generation_(generation) {}
  constexpr std::uint32_t generation() const { return generation_; }
  // The slot's state word is this for as long as the wait is pending: the value to give to
  // futex_waitv where the owner sleeps on another word, too.
  constexpr std::uint32_t word() const {
    return SlotState{SlotPhase::kWaiting, generation_}.pack();
  }

 private:
  std::uint32_t generation_;
};

enum class Woken : std::uint8_t { kByTimekeeper, kByHostDeadline, kBySignal };
enum class Disarmed : std::uint8_t { kCancelled, kFired };

// How firing reaches the owner besides the slot's futex word.
enum class WakeBy : std::uint32_t {
  kFutex = 0,
  // Also a write to the slot's eventfd. It may come after the owner has left the wait: whoever
  // polls the eventfd looks at `pending` after each wake-up and polls again.
  kEventFd = 1,
};

// A handle, not a guard: copies name the same slot, and only `release` gives it up. (A forked child
// has copies of its parent's handles and must forget them.)
template <class Sync>
class BasicSlotOwner {
 public:
  using Slot = BasicSlot<Sync>;

  // Nothing where the slot belongs to another.
  static std::optional<BasicSlotOwner> claim(Slot& slot, std::uint32_t pid, std::uint32_t tid,
                                             SlotKind kind) {
    if (!slot.pid.compare_exchange(0, pid)) return std::nullopt;
    const auto state = SlotState::unpack(slot.state.load());
    if (state.phase != SlotPhase::kFree) Sync::broken("an ownerless slot is not free");
    slot.tid.store(tid);
    slot.kind.store(static_cast<std::uint32_t>(kind));
    slot.state.store(state.in(SlotPhase::kIdle).pack());
    return BasicSlotOwner(slot);
  }

  // The first free slot of the board; nothing where all are taken.
  static std::optional<BasicSlotOwner> claim_any(BasicBoard<Sync>& board, std::uint32_t pid,
                                                 std::uint32_t tid, SlotKind kind) {
    for (std::uint32_t index = 0; index < board.capacity; ++index) {
      Slot& slot = board.slots()[index];
      if (slot.pid.load() != 0) continue;
      raise_high_water(board, index + 1);
      if (auto owner = claim(slot, pid, tid, kind)) return owner;
    }
    return std::nullopt;
  }

  // The wait is pending from here on. Leaves a wait that the thread abandoned, as by a longjmp out
  // of a signal handler.
  ArmedWait arm(VirtualTime target, WakeBy wake_by = WakeBy::kFutex) {
    const auto state = own_state();
    if (state.phase != SlotPhase::kIdle) slot_->state.store(state.in(SlotPhase::kIdle).pack());
    slot_->target_ns.store(target.ns());
    slot_->rings_fd.store(static_cast<std::uint32_t>(wake_by));
    slot_->state.store(state.armed().pack());
    return ArmedWait(state.armed().generation);
  }

  bool pending(ArmedWait wait) const { return slot_->state.load() == wait.word(); }

  // Sleeps until the wait is no longer pending, the host deadline (CLOCK_MONOTONIC) or a signal.
  // The wait ends with `disarm` in any case.
  Woken park(ArmedWait wait, const timespec* host_deadline = nullptr) const {
    while (pending(wait)) {
      switch (Sync::wait(slot_->state, wait.word(), host_deadline)) {
        case ETIMEDOUT:
          return Woken::kByHostDeadline;
        case EINTR:
          return Woken::kBySignal;
        case EAGAIN:
        case 0:
          break;
        default:
          Sync::broken("the kernel refused a futex wait");
      }
    }
    return Woken::kByTimekeeper;
  }

  // Ends the wait. kFired: the Timekeeper ended it first, at its target.
  Disarmed disarm(ArmedWait wait) {
    const SlotState waiting{SlotPhase::kWaiting, wait.generation()};
    const SlotState idle = waiting.in(SlotPhase::kIdle);
    if (slot_->state.compare_exchange(waiting.pack(), idle.pack())) return Disarmed::kCancelled;
    if (own_state() != waiting.in(SlotPhase::kFired)) {
      Sync::broken("a wait was ended by neither its owner nor the Timekeeper");
    }
    slot_->state.store(idle.pack());
    return Disarmed::kFired;
  }

  // The slot is anybody's afterwards. A wait that is still pending goes with it.
  void release() {
    slot_->state.store(own_state().in(SlotPhase::kFree).pack());
    slot_->pid.store(0);
  }

  Slot& slot() const { return *slot_; }

 private:
  explicit BasicSlotOwner(Slot& slot) : slot_(&slot) {}

  SlotState own_state() const {
    const auto state = SlotState::unpack(slot_->state.load());
    if (state.phase == SlotPhase::kFree) Sync::broken("the slot of a living owner was freed");
    return state;
  }

  // Before the claim: the slot of a process killed in between is then still looked at.
  static void raise_high_water(BasicBoard<Sync>& board, std::uint32_t count) {
    for (auto seen = board.high_water.load(); seen < count; seen = board.high_water.load()) {
      if (board.high_water.compare_exchange(seen, count)) return;
    }
  }

  Slot* slot_;
};

// A slot as the Timekeeper saw it.
struct SlotView {
  std::optional<VirtualTime> target;  // of a pending wait; nothing: the owner is at work
  std::uint32_t generation = 0;       // what `fire` wants
  SlotKind kind = SlotKind::kWait;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  WakeBy wake_by = WakeBy::kFutex;
};

template <class Sync>
class BasicSlotWatcher {
 public:
  using Slot = BasicSlot<Sync>;

  explicit BasicSlotWatcher(Slot& slot) : slot_(&slot) {}

  // Nothing where the slot is free. What it says of a wait belongs together: where the state
  // changed while it was read, the owner was at work, and no target is reported.
  std::optional<SlotView> snapshot() const {
    const std::uint32_t word = slot_->state.load();
    const auto state = SlotState::unpack(word);
    if (state.phase == SlotPhase::kFree) return std::nullopt;
    SlotView view{.target = VirtualTime::from_ns(slot_->target_ns.load()),
                  .generation = state.generation,
                  .kind = static_cast<SlotKind>(slot_->kind.load()),
                  .pid = slot_->pid.load(),
                  .tid = slot_->tid.load(),
                  .wake_by = static_cast<WakeBy>(slot_->rings_fd.load())};
    const bool pending = state.phase == SlotPhase::kWaiting && slot_->state.load() == word;
    if (!pending) view.target.reset();
    return view;
  }

  // Wakes the owner from the wait of that generation. False: it has left that wait already.
  bool fire(std::uint32_t generation) {
    const SlotState waiting{SlotPhase::kWaiting, generation};
    if (!slot_->state.compare_exchange(waiting.pack(), waiting.in(SlotPhase::kFired).pack())) {
      return false;
    }
    Sync::wake(slot_->state, 1);
    return true;
  }

  // The process `dead_pid` is gone (dead, or become another program): true where this was its slot,
  // which is free now. Call it before another process of that pid is let in.
  bool reclaim(std::uint32_t dead_pid) {
    if (slot_->pid.load() != dead_pid) return false;
    const auto state = SlotState::unpack(slot_->state.load());
    slot_->state.store(state.in(SlotPhase::kFree).pack());
    slot_->pid.store(0);
    return true;
  }

 private:
  Slot* slot_;
};

// --- The doorbell -------------------------------------------------------------------------------

// Wakes the Timekeeper's listener.
template <class Sync>
void ring(BasicBoard<Sync>& board) {
  board.rings.fetch_add(1);
  Sync::wake(board.rings, 1);
}

// A member's thread calls this last before it blocks, after it has armed its slot.
template <class Sync>
void ring_if_listened_to(BasicBoard<Sync>& board, std::uint32_t tid) {
  const std::uint32_t listening = board.listening.load();
  if (listening == tid || listening == kListeningToAll) ring(board);
}

// No ring is lost if the Timekeeper (1) listens, (2) looks again whether what it wants to hear of
// has happened, and only if it has not (3) waits: a thread that blocked before (1) is seen at (2),
// and a ring after (1) makes `rings` differ from what (3) expects.
//
// The ring comes just before the thread blocks. Whoever wants it asleep looks again with a short
// host deadline.
template <class Sync>
class BasicDoorbellListener {
 public:
  explicit BasicDoorbellListener(BasicBoard<Sync>& board) : board_(&board) {}
  BasicDoorbellListener(const BasicDoorbellListener&) = delete;
  BasicDoorbellListener& operator=(const BasicDoorbellListener&) = delete;
  ~BasicDoorbellListener() { stop_listening(); }

  // `tid`: a thread's, or kListeningToAll.
  void listen(std::uint32_t tid) {
    rings_seen_ = board_->rings.load();
    board_->listening.store(tid);
  }

  // True: rung since `listen`. False: the host deadline (CLOCK_MONOTONIC) or a signal came first.
  bool wait_for_ring(const timespec* host_deadline = nullptr) const {
    while (board_->rings.load() == rings_seen_) {
      const int rc = Sync::wait(board_->rings, rings_seen_, host_deadline);
      if (rc == ETIMEDOUT || rc == EINTR) return false;
      if (rc != 0 && rc != EAGAIN) Sync::broken("the kernel refused a futex wait");
    }
    return true;
  }

  void stop_listening() { board_->listening.store(kListeningToNobody); }

 private:
  BasicBoard<Sync>* board_;
  std::uint32_t rings_seen_ = 0;
};

using SlotOwner = BasicSlotOwner<NativeSync>;
using SlotWatcher = BasicSlotWatcher<NativeSync>;
using DoorbellListener = BasicDoorbellListener<NativeSync>;

}  // namespace warpserve
