// Notices at once that a process of this host has died, however it died: one pidfd each, all in
// one epoll descriptor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "timekeeper/server/fd.hpp"

namespace warpserve {

class ExitWatch {
 public:
  ExitWatch();

  // Several keys may name one process. False where it is gone already or can't be watched.
  bool add(std::uint64_t key, pid_t pid);
  void remove(std::uint64_t key);

  // Readable when a watched process has died.
  int fd() const { return epoll_fd_.get(); }
  // The keys whose processes have died; they stay watched until removed.
  std::vector<std::uint64_t> exited() const;

 private:
  Fd epoll_fd_;
  std::map<std::uint64_t, Fd> pidfds_;
};

}  // namespace warpserve
