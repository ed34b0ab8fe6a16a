// The C API (warpserve.h).
#include <linux/futex.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <new>
#include <optional>

#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/fatal.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/start.hpp"
#include "timekeeper/preload/thread_state.hpp"
#include "timekeeper/preload/wait.hpp"
#include "timekeeper/preload/warpserve.h"

using namespace warpserve;

struct ws_actor {
  SlotOwner slot;
  std::uint32_t generation;                 // of the process
  std::atomic<std::uint32_t> cancelled{0};  // the futex word that a wait is also on
  std::atomic<bool> waiting{false};
  std::optional<ArmedWait> armed;  // by ws_actor_arm
  int given_eventfd = -1;

  bool is_ours() const { return is_member() && generation == member.generation; }
};

struct ws_hold {
  SlotOwner slot;
  std::uint32_t generation;
};

namespace {

Line join_error;

// Memory without operator new, which would bring in the C++ runtime's error handling.
template <class T>
T* allocate() {
  return static_cast<T*>(malloc(sizeof(T)));
}

// May a wait for `target_ns` begin? WS_OK, or why not.
int check_wait(const ws_actor& actor, std::int64_t target_ns) {
  if (!actor.is_ours()) return WS_NOT_A_MEMBER;
  if (target_ns < 0) return WS_NEGATIVE;
  if (target_ns == kNever.ns()) return WS_OUT_OF_RANGE;
  return virtual_clock().ended() ? WS_ENDED : WS_OK;
}

int status_of(ws_actor& actor, WaitEnd end) {
  switch (end) {
    case WaitEnd::kReached:
      return WS_OK;
    case WaitEnd::kInterrupted:
      return WS_INTERRUPTED;
    case WaitEnd::kWoken:
    case WaitEnd::kChanged:
      actor.cancelled.store(0);
      return WS_CANCELLED;
  }
  __builtin_unreachable();
}

int wait_for(ws_actor& actor, VirtualTime target) {
  if (actor.armed || actor.waiting.exchange(true)) return WS_BUSY;
  const FutexWord word = {&actor.cancelled, 0, true};
  WaitEnd end = WaitEnd::kReached;
  if (actor.cancelled.load() != 0) {
    end = WaitEnd::kChanged;
  } else if (target > virtual_now()) {
    end = wait_in_slot(actor.slot, target, word);
  }
  actor.waiting.store(false);
  return status_of(actor, end);
}

JoinResult join_with_error(const char* folder) {
  join_error = Line();
  return become_member(folder, join_error);
}

}  // namespace

WARPSERVE_EXPORT const char* ws_error(int status) {
  switch (status) {
    case WS_NOT_A_MEMBER:
      return "the process is not a member of a session, or the handle is its parent's";
    case WS_ALREADY_A_MEMBER:
      return "the process is a member of a session already";
    case WS_REFUSED:
      return "the session refused the process";
    case WS_NO_TIMEKEEPER:
      return "the session's Timekeeper does not answer";
    case WS_NEGATIVE:
      return "a time or duration is negative";
    case WS_OUT_OF_RANGE:
      return "a time is later than the clock can hold";
    case WS_CANCELLED:
      return "the wait was cancelled";
    case WS_INTERRUPTED:
      return "a signal handler interrupted the wait";
    case WS_BUSY:
      return "the actor is waiting already";
    case WS_ENDED:
      return "the session is over";
    case WS_NO_MEMORY:
      return "no memory is left";
    default:
      return status >= 0 ? "success" : "an unknown status";
  }
}

WARPSERVE_EXPORT int ws_join(const char* folder) {
  switch (join_with_error(folder)) {
    case JoinResult::kJoined:
      return WS_OK;
    case JoinResult::kAlreadyMember:
      return WS_ALREADY_A_MEMBER;
    case JoinResult::kRefused:
      return WS_REFUSED;
    case JoinResult::kNoTimekeeper:
      return WS_NO_TIMEKEEPER;
  }
  __builtin_unreachable();
}

WARPSERVE_EXPORT const char* ws_join_error() {
  return join_error.c_str();
}

WARPSERVE_EXPORT int ws_is_member() {
  return is_member() ? 1 : 0;
}

WARPSERVE_EXPORT const char* ws_session_folder() {
  return is_member() ? member.folder : "";
}

WARPSERVE_EXPORT int ws_mode() {
  return is_member() ? static_cast<int>(member.clock_page->mode) : WS_NOT_A_MEMBER;
}

WARPSERVE_EXPORT int ws_ended() {
  return is_member() && virtual_clock().ended() ? 1 : 0;
}

WARPSERVE_EXPORT int64_t ws_now_ns() {
  return is_member() ? virtual_now().ns() : -1;
}

WARPSERVE_EXPORT int64_t ws_realtime_epoch_ns() {
  return is_member() ? member.clock_page->realtime_epoch_ns : -1;
}

WARPSERVE_EXPORT int64_t ws_monotonic_base_ns() {
  return is_member() ? member.clock_page->monotonic_base_ns : -1;
}

WARPSERVE_EXPORT int64_t ws_host_now_ns() {
  return host_now_ns();
}

WARPSERVE_EXPORT int ws_settle() {
  if (!is_member()) return WS_NOT_A_MEMBER;
  if (virtual_clock().ended()) return WS_ENDED;
  settle("the end of an instant");
  return WS_OK;
}

WARPSERVE_EXPORT int ws_actor_create(const char* label, ws_actor** actor) {
  if (!is_member()) return WS_NOT_A_MEMBER;
  notice_fork();
  auto* memory = allocate<ws_actor>();
  if (memory == nullptr) return WS_NO_MEMORY;
  *actor = new (memory)
      ws_actor{.slot = claim_slot(SlotKind::kActor), .generation = member.generation, .armed = {}};
  set_label((*actor)->slot, label);
  return WS_OK;
}

WARPSERVE_EXPORT int ws_actor_wait_until(ws_actor* actor, int64_t target_ns) {
  if (const int status = check_wait(*actor, target_ns); status != WS_OK) return status;
  return wait_for(*actor, VirtualTime::from_ns(target_ns));
}

WARPSERVE_EXPORT int ws_actor_jump(ws_actor* actor, int64_t duration_ns) {
  if (!is_member()) return WS_NOT_A_MEMBER;
  if (duration_ns < 0) return WS_NEGATIVE;
  const VirtualTime target = virtual_now().saturating_add(VirtualDuration::from_ns(duration_ns));
  int status = WS_OK;
  do {
    status = ws_actor_wait_until(actor, target.ns());
  } while (status == WS_INTERRUPTED);
  return status;
}

WARPSERVE_EXPORT int ws_actor_cancel(ws_actor* actor) {
  if (!actor->is_ours()) return WS_NOT_A_MEMBER;
  actor->cancelled.store(1);
  raw_syscall(SYS_futex, &actor->cancelled, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX);
  return WS_OK;
}

WARPSERVE_EXPORT int ws_actor_arm(ws_actor* actor, int64_t target_ns, int eventfd) {
  if (const int status = check_wait(*actor, target_ns); status != WS_OK) return status;
  if (actor->armed || actor->waiting.load()) return WS_BUSY;
  if (actor->given_eventfd != eventfd) {
    if (!give_wake_fd(slot_index(actor->slot), eventfd)) return WS_ENDED;
    actor->given_eventfd = eventfd;
  }
  actor->armed = actor->slot.arm(VirtualTime::from_ns(target_ns), WakeBy::kEventFd);
  // Where host time passes, nobody here times this wait: the Timekeeper has to know of it now.
  if (ws_mode() != WS_EXACT) ring(*member.board);
  return WS_OK;
}

WARPSERVE_EXPORT int ws_actor_is_due(const ws_actor* actor) {
  return actor->is_ours() && actor->armed && !actor->slot.pending(*actor->armed) ? 1 : 0;
}

WARPSERVE_EXPORT int ws_actor_disarm(ws_actor* actor) {
  if (!actor->is_ours()) return WS_NOT_A_MEMBER;
  if (!actor->armed) return 0;
  const bool was_fired = actor->slot.disarm(*actor->armed) == Disarmed::kFired;
  actor->armed.reset();
  return was_fired ? 1 : 0;
}

WARPSERVE_EXPORT void ws_actor_destroy(ws_actor* actor) {
  if (actor == nullptr) return;
  if (actor->is_ours()) actor->slot.release();
  free(actor);
}

WARPSERVE_EXPORT int ws_hold_create(const char* label, ws_hold** hold) {
  if (!is_member()) return WS_NOT_A_MEMBER;
  notice_fork();
  auto* memory = allocate<ws_hold>();
  if (memory == nullptr) return WS_NO_MEMORY;
  *hold =
      new (memory) ws_hold{.slot = claim_slot(SlotKind::kHold), .generation = member.generation};
  set_label((*hold)->slot, label);
  (*hold)->slot.arm(VirtualTime());
  return WS_OK;
}

WARPSERVE_EXPORT void ws_hold_release(ws_hold* hold) {
  if (hold == nullptr) return;
  if (is_member() && hold->generation == member.generation) hold->slot.release();
  free(hold);
}
