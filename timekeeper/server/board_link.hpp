// Takes what members wrote on the board into the Core, and fires the slots that the Core names.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "timekeeper/core/core.hpp"
#include "timekeeper/server/trace.hpp"
#include "timekeeper/server/wake_descriptors.hpp"
#include "timekeeper/shared/slot.hpp"

namespace warpserve {

// One thread, or remote actor, that waits for an instant; for status and stall report.
struct WaitingThread {
  std::uint32_t pid;  // or the remote member's number
  std::uint32_t tid;  // or the remote actor's number
  std::string label;
  VirtualTime target;
  bool remote = false;
};

// One thread whose hold keeps time from advancing; for status and stall report.
struct HoldingThread {
  std::uint32_t pid;
  std::string label;
  bool asks_outside;  // until somebody outside of the session has answered
};

class BoardLink {
 public:
  // Before members can write to the board. `trace` may be null.
  BoardLink(Board& board, Core& core, WakeDescriptors& wake_descriptors, Trace* trace)
      : board_(board),
        capacity_(board.capacity),
        core_(core),
        wake_descriptors_(wake_descriptors),
        trace_(trace) {}

  // A process whose slots count. Safe to call again for one that is known.
  void add_process(pid_t pid, const std::string& name);
  // The process is gone, dead or become another program: its slots are free, its targets dropped.
  void remove_process(pid_t pid);
  // A thread has ended without giving back its slots.
  void remove_thread(pid_t pid, pid_t tid);

  // Brings the Core up to date with the board.
  void update();

  // Wakes the thread behind `actor`. Returns its id; nothing where `actor` is not of the board.
  std::optional<std::uint32_t> fire(ActorId actor);

  // Ends every wait, whatever its target: the session is over.
  void release_all();

  std::vector<WaitingThread> waiting() const;
  std::vector<HoldingThread> holders() const;
  // Does a member wait for an answer from outside of the session?
  bool asks_outside() const;

 private:
  struct Record {
    SlotView view;
    std::optional<ActorId> actor;  // not for a hold
    std::optional<HoldId> hold;    // while it is out
    VirtualTime armed_at;
  };

  std::uint32_t slots_to_look_at() const;
  void reclaim(std::uint32_t index, pid_t pid);
  void update_slot(std::uint32_t index);
  Record make_record(const SlotView& view);
  void drop(std::uint32_t index);
  void update_hold(Record& record, const SlotView& view);
  void update_wait(std::uint32_t index, Record& record, const SlotView& view);
  void trace_end(std::uint32_t index, const Record& record, bool fired);
  std::string label(std::uint32_t index) const;
  SlotWatcher watcher(std::uint32_t index) { return SlotWatcher(board_.slots()[index]); }

  Board& board_;
  const std::uint32_t capacity_;
  Core& core_;
  WakeDescriptors& wake_descriptors_;
  Trace* trace_;
  std::map<pid_t, MemberId> members_;
  std::vector<std::optional<Record>> records_;  // by slot
  std::map<ActorId, std::uint32_t> slot_of_;
};

}  // namespace warpserve
