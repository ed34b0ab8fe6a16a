#include "timekeeper/server/zmq/exit_watch.hpp"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "timekeeper/server/errors.hpp"

namespace warpserve {

ExitWatch::ExitWatch() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_fd_.valid()) throw os_error("epoll_create1");
}

bool ExitWatch::add(std::uint64_t key, pid_t pid) {
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return false;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  if (epoll_ctl(epoll_fd_.get(), EPOLL_CTL_ADD, pidfd.get(), &event) != 0) return false;
  pidfds_.emplace(key, std::move(pidfd));
  return true;
}

void ExitWatch::remove(std::uint64_t key) {
  pidfds_.erase(key);
}

std::vector<std::uint64_t> ExitWatch::exited() const {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_fd_.get(), events.data(), static_cast<int>(events.size()), 0);
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < count; ++i) keys.push_back(events[static_cast<std::size_t>(i)].data.u64);
  return keys;
}

}  // namespace warpserve
