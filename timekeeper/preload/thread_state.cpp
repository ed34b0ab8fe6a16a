#include "timekeeper/preload/thread_state.hpp"

#include <pthread.h>
#include <sys/eventfd.h>

#include <cstring>

#include "timekeeper/preload/descriptors.hpp"
#include "timekeeper/preload/fatal.hpp"
#include "timekeeper/preload/raw_syscall.hpp"

namespace warpserve {

thread_local constinit ThreadState this_thread;

namespace {

pthread_key_t exit_key;

void leave(void* state) {
  auto& thread = *static_cast<ThreadState*>(state);
  if (thread.generation != member.generation) return;
  if (thread.slot) thread.slot->release();
  thread.slot.reset();
  drop_descriptor(thread.wake_fd);
  thread.wake_fd = -1;
  thread.slot_in_use = false;
}

}  // namespace

bool watch_thread_exits() {
  return pthread_key_create(&exit_key, leave) == 0;
}

ThreadState& own_state() {
  ThreadState& thread = this_thread;
  if (__builtin_expect(thread.generation != member.generation, 0)) {
    thread = ThreadState{};
    thread.generation = member.generation;
    thread.tid = current_tid();
  }
  return thread;
}

void ring_before_blocking() {
  ThreadState& thread = own_state();
  thread.in_busy_wait = false;
  thread.idle_count = 0;
  ring_if_listened_to(*member.board, thread.tid);
}

SlotOwner claim_slot(SlotKind kind) {
  const auto slot = SlotOwner::claim_any(*member.board, member.pid, own_state().tid, kind);
  if (!slot) {
    die("all ", static_cast<long>(member.board->capacity),
        " slots of the session are taken: let fewer threads wait at a time");
  }
  return *slot;
}

std::uint32_t slot_index(const SlotOwner& slot) {
  return static_cast<std::uint32_t>(&slot.slot() - member.board->slots());
}

void set_label(const SlotOwner& slot, const char* label) {
  strncpy(slot.slot().label, label, kSlotLabelBytes - 1);
}

SlotLease::SlotLease(const char* label)
    : nested_(own_state().slot_in_use),
      thread_(this_thread),
      slot_(nested_ ? nested_slot_ : thread_.slot),
      wake_fd_(nested_ ? nested_wake_fd_ : thread_.wake_fd) {
  if (!nested_) thread_.slot_in_use = true;
  if (!slot_) {
    slot_ = claim_slot(SlotKind::kWait);
    if (!nested_) pthread_setspecific(exit_key, &thread_);
  }
  set_label(*slot_, label);
}

SlotLease::~SlotLease() {
  if (!nested_) {
    thread_.slot_in_use = false;
    return;
  }
  nested_slot_->release();
  drop_descriptor(nested_wake_fd_);
}

int SlotLease::wake_fd() {
  if (wake_fd_ >= 0) return wake_fd_;
  const long fd = raw_syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int kept = fd < 0 ? -1 : keep_descriptor(static_cast<int>(fd));
  if (kept < 0) die("no descriptor is left for a wait in ", slot_->slot().label);
  if (!give_wake_fd(slot_index(*slot_), kept)) {
    drop_descriptor(kept);
    return -1;
  }
  return wake_fd_ = kept;
}

void SlotLease::lose_wake_fd() {
  drop_descriptor(wake_fd_);
  wake_fd_ = -1;
}

}  // namespace warpserve
