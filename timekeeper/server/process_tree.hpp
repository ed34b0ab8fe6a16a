// Which processes and threads belong to the session, kept up to date as cheaply as is sound.
//
// Whoever creates a process or a thread runs. So a process must be listed again (its threads, and
// the children of each) only if it has run since it was last listed, and not even then while the
// kernel's last process id stays the same, because nobody at all has been created. Its owner says
// who has run (WatchedProcess::has_run), from counters read before list_the_new().
//
// A listing finds at least one thread of any chain of unknown ones:
//   - The first unknown thread of a chain was created by a known one: as a thread of its process,
//     as its child, or as a child of its parent (CLONE_PARENT). All three are listed.
//   - What an unknown process that has ended leaves behind goes to the main thread of one of its
//     ancestors, or to the Timekeeper. Main threads are always listed, and ancestors after their
//     descendants, so that an orphan cannot pass from one that is still to be listed to one that
//     was.
// Listings are repeated until one finds nobody new; and a process in which one found a thread is
// listed again, because whatever that thread created before its counters were first read would not
// show in them.
//
// Process and thread ids may be used again: each process and thread is held by open descriptors,
// which fail once it has gone.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "timekeeper/core/types.hpp"
#include "timekeeper/server/fd.hpp"
#include "timekeeper/server/procfs.hpp"
#include "timekeeper/server/watched_thread.hpp"

namespace warpserve {

// When a process was listed. Process ids wrap, so an equal mark is trusted for a short time only;
// and only if the process slept while it was listed: a thread that is being created has its id, and
// so the mark, before it can be listed, and another's end can undo what its beginning adds to the
// mark.
struct Listing {
  std::string mark;  // ProcessTree::read_creation_mark() before it began
  HostTime at;
  bool was_asleep = false;
  bool is_up_to_date(const std::string& mark_now) const;
};

struct WatchedProcess {
  enum class Origin : std::uint8_t { kTree, kOutside, kTimekeeper, kKernel };

  pid_t pid = 0;
  pid_t parent = 0;  // when it was found; orphans move up
  Origin origin = Origin::kTree;
  std::optional<ProgramImage> member_image;  // set while the process is a member
  Fd task_dir;                               // /proc/P/task
  std::vector<WatchedThread> threads;        // by tid

  bool has_run = true;  // since it was last listed
  Listing listing;

  // Of the others the watched threads are given once and for all.
  bool is_in_session() const { return origin == Origin::kTree || origin == Origin::kOutside; }
};

// How children are found: from /proc/P/task/T/children where the kernel has it
// (CONFIG_PROC_CHILDREN), or from the parents of all processes.
enum class ChildrenFrom : std::uint8_t { kBestOfKernel, kAllProcesses };

class ProcessTree {
 public:
  // The tree is all descendants of `timekeeper`, without itself. Throws UsageError where the
  // kernel lacks what a look needs.
  explicit ProcessTree(pid_t timekeeper, ChildrenFrom children = ChildrenFrom::kBestOfKernel);

  // False if there are still new ones after as many listings as a look can afford.
  bool list_the_new();
  // The same without relying on who has run.
  bool list_everything();

  // A process from elsewhere, with its descendants. False if there is no such process.
  bool add_outside(pid_t pid);
  void remove_outside(pid_t pid);

  // One of the Timekeeper's own threads. False if there is no such thread.
  bool add_own_thread(pid_t tid);

  // As they were found: parents before children.
  std::vector<WatchedProcess>& processes() { return processes_; }
  const std::vector<WatchedProcess>& processes() const { return processes_; }
  WatchedProcess* find(pid_t pid);

  // Drops threads, given as (pid, tid), that have ended.
  void forget(const std::vector<std::pair<pid_t, pid_t>>& gone);

 private:
  std::vector<bool> select(const std::string& mark) const;
  void list_once(const std::string& mark, const std::vector<bool>& selected);
  void list_fully(std::size_t index, const std::string& mark);
  bool list_threads(WatchedProcess& process);
  void adopt_children(int task_dir, pid_t tid);
  void adopt_children_of_timekeeper(const std::string& mark);
  void adopt_by_parent();
  void adopt(pid_t pid);
  void drop_ended();
  bool is_in_tree(pid_t pid) const;
  std::string read_creation_mark();
  void find_soft_interrupt_threads();

  pid_t timekeeper_;
  Fd timekeeper_task_dir_;
  Listing timekeeper_listing_;
  bool has_children_files_ = false;
  bool must_list_ = true;
  ProcFile loadavg_;
  std::vector<WatchedProcess> processes_;
};

}  // namespace warpserve
