#include "timekeeper/server/board_link.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace warpserve {

namespace {

bool is_hold(SlotKind kind) {
  return kind == SlotKind::kHold || kind == SlotKind::kAsks;
}

// Which of the waits that are due at one instant is fired first. Thread ids have 32 bits.
std::uint64_t order_of(const SlotView& view) {
  constexpr std::uint64_t kAfterAllThreads = std::uint64_t{1} << 32;
  return view.tid + (view.kind == SlotKind::kSettle ? kAfterAllThreads : 0);
}

// What a thread waits in ends with it; actors and holds are the process's, whose other threads go
// on with them.
bool ends_with_thread(SlotKind kind) {
  return kind != SlotKind::kActor && kind != SlotKind::kHold;
}

bool same_owner(const SlotView& a, const SlotView& b) {
  return a.pid == b.pid && a.tid == b.tid && a.kind == b.kind;
}

void expect_ok(CoreStatus status) {
  if (status != CoreStatus::kOk) throw std::logic_error("the Core and the board disagree");
}

}  // namespace

void BoardLink::add_process(pid_t pid, const std::string& name) {
  if (!members_.contains(pid)) members_.emplace(pid, core_.add_member(name));
}

void BoardLink::remove_process(pid_t pid) {
  const auto member = members_.find(pid);
  if (member == members_.end()) return;
  const std::uint32_t count = slots_to_look_at();
  for (std::uint32_t index = 0; index < count; ++index) reclaim(index, pid);
  // A slot that a thread gave back at its end is nobody's on the board, or another process's.
  for (std::uint32_t index = 0; index < records_.size(); ++index) {
    if (records_[index] && records_[index]->view.pid == static_cast<std::uint32_t>(pid)) {
      drop(index);
    }
  }
  core_.remove_member(member->second);
  members_.erase(member);
}

void BoardLink::remove_thread(pid_t pid, pid_t tid) {
  const std::uint32_t count = slots_to_look_at();
  for (std::uint32_t index = 0; index < count; ++index) {
    const Slot& slot = board_.slots()[index];
    const bool is_threads = slot.tid.load() == static_cast<std::uint32_t>(tid);
    if (is_threads && ends_with_thread(static_cast<SlotKind>(slot.kind.load()))) {
      reclaim(index, pid);
    }
  }
}

// Members can write the whole board: what one of them has damaged must not lead beyond it.
std::uint32_t BoardLink::slots_to_look_at() const {
  return std::min(board_.high_water.load(), capacity_);
}

void BoardLink::reclaim(std::uint32_t index, pid_t pid) {
  if (!watcher(index).reclaim(static_cast<std::uint32_t>(pid))) return;
  wake_descriptors_.drop(index);
  if (index < records_.size() && records_[index]) drop(index);
}

void BoardLink::update() {
  const std::uint32_t count = slots_to_look_at();
  if (records_.size() < count) records_.resize(count);
  for (std::uint32_t index = 0; index < count; ++index) update_slot(index);
}

void BoardLink::update_slot(std::uint32_t index) {
  const std::optional<SlotView> view = watcher(index).snapshot();
  std::optional<Record>& record = records_[index];
  if (record && (!view || !same_owner(record->view, *view))) drop(index);
  if (!view) return;
  if (!record) record = make_record(*view);
  if (is_hold(view->kind)) {
    update_hold(*record, *view);
  } else {
    update_wait(index, *record, *view);
  }
}

BoardLink::Record BoardLink::make_record(const SlotView& view) {
  const auto pid = static_cast<pid_t>(view.pid);
  // A child of a raw clone() says no hello; its waits count all the same.
  add_process(pid, "process " + std::to_string(pid));
  Record record{.view = view, .actor = {}, .hold = {}, .armed_at = {}};
  record.view.target.reset();
  if (is_hold(view.kind)) return record;
  record.actor = core_.add_actor(
      {.member = members_.at(pid),
       .name = "thread " + std::to_string(view.tid),
       .kind = view.kind == SlotKind::kActor ? ActorKind::kActor : ActorKind::kObserver,
       .place = ActorPlace::kHere,
       .order = order_of(view)});
  return record;
}

void BoardLink::drop(std::uint32_t index) {
  std::optional<Record>& record = records_[index];
  if (record->view.target) trace_end(index, *record, false);
  if (record->actor) {
    slot_of_.erase(*record->actor);
    expect_ok(core_.remove_actor(*record->actor));
  }
  if (record->hold) expect_ok(core_.release(*record->hold));
  record.reset();
}

void BoardLink::update_hold(Record& record, const SlotView& view) {
  if (view.target && !record.hold) {
    record.hold = core_.add_hold(members_.at(static_cast<pid_t>(view.pid)));
  } else if (!view.target && record.hold) {
    expect_ok(core_.release(*record.hold));
    record.hold.reset();
  }
  record.view = view;
}

void BoardLink::update_wait(std::uint32_t index, Record& record, const SlotView& view) {
  const bool same_wait =
      record.view.target && view.target && record.view.generation == view.generation;
  if (same_wait) return;
  if (record.view.target) {
    trace_end(index, record, false);
    expect_ok(core_.cancel(*record.actor));
  }
  record.view = view;
  if (!view.target) return;
  record.armed_at = core_.now();
  slot_of_[*record.actor] = index;
  expect_ok(core_.wait_until(*record.actor, *view.target));
}

std::optional<std::uint32_t> BoardLink::fire(ActorId actor) {
  const auto slot = slot_of_.find(actor);
  if (slot == slot_of_.end()) return std::nullopt;
  const std::uint32_t index = slot->second;
  Record& record = *records_[index];
  // The eventfd comes second: whoever it wakes looks at the slot's state.
  const bool fired = watcher(index).fire(record.view.generation);
  if (fired && record.view.wake_by == WakeBy::kEventFd) wake_descriptors_.ring(index);
  trace_end(index, record, fired);
  record.view.target.reset();
  return record.view.tid;
}

void BoardLink::release_all() {
  for (const auto& [actor, index] : std::map(slot_of_)) {
    if (records_[index]->view.target) fire(actor);
  }
}

std::vector<WaitingThread> BoardLink::waiting() const {
  std::vector<WaitingThread> threads;
  for (std::uint32_t index = 0; index < records_.size(); ++index) {
    const auto& record = records_[index];
    if (!record || !record->actor || !record->view.target) continue;
    threads.push_back({record->view.pid, record->view.tid, label(index), *record->view.target});
  }
  return threads;
}

std::vector<HoldingThread> BoardLink::holders() const {
  std::vector<HoldingThread> threads;
  for (std::uint32_t index = 0; index < records_.size(); ++index) {
    const auto& record = records_[index];
    if (!record || !record->hold) continue;
    threads.push_back({.pid = record->view.pid,
                       .label = label(index),
                       .asks_outside = record->view.kind == SlotKind::kAsks});
  }
  return threads;
}

bool BoardLink::asks_outside() const {
  return std::ranges::any_of(records_, [](const std::optional<Record>& record) {
    return record && record->hold && record->view.kind == SlotKind::kAsks;
  });
}

void BoardLink::trace_end(std::uint32_t index, const Record& record, bool fired) {
  if (trace_ == nullptr) return;
  trace_->add({.pid = record.view.pid,
               .tid = record.view.tid,
               .label = label(index),
               .begin = record.armed_at,
               .end = core_.now(),
               .target = *record.view.target,
               .fired = fired});
}

std::string BoardLink::label(std::uint32_t index) const {
  const char* text = board_.slots()[index].label;
  const std::string name(text, strnlen(text, kSlotLabelBytes));
  return name.empty() ? "wait" : name;
}

}  // namespace warpserve
