// Descriptors: their ownership, and the ways to wait until one can be read.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tests/programs/runner/clocks.hpp"
#include "tests/programs/runner/fail.hpp"

namespace programs {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(must(fd, "a descriptor")) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

using Timeout = std::optional<std::int64_t>;  // ns

namespace detail {

inline bool by_read(int, Timeout) {
  return true;
}  // read blocks by itself

inline bool by_poll(int fd, Timeout ns) {
  pollfd polled = {fd, POLLIN, 0};
  return must(poll(&polled, 1, ns ? ms_of(*ns) : -1), "poll") == 1;
}

inline bool by_ppoll(int fd, Timeout ns) {
  pollfd polled = {fd, POLLIN, 0};
  const timespec timeout = timespec_of(ns.value_or(0));
  return must(ppoll(&polled, 1, ns ? &timeout : nullptr, nullptr), "ppoll") == 1;
}

inline fd_set set_of(int fd) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  return set;
}

inline bool by_select(int fd, Timeout ns) {
  fd_set readable = set_of(fd);
  timeval timeout = timeval_of(ns.value_or(0));
  return must(select(fd + 1, &readable, nullptr, nullptr, ns ? &timeout : nullptr), "select") == 1;
}

inline bool by_pselect(int fd, Timeout ns) {
  fd_set readable = set_of(fd);
  const timespec timeout = timespec_of(ns.value_or(0));
  return must(pselect(fd + 1, &readable, nullptr, nullptr, ns ? &timeout : nullptr, nullptr),
              "pselect") == 1;
}

inline Descriptor epoll_of(int fd) {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  must(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  return epoll;
}

inline bool by_epoll_wait(int fd, Timeout ns) {
  const Descriptor epoll = epoll_of(fd);
  epoll_event event{};
  return must(epoll_wait(epoll.get(), &event, 1, ns ? ms_of(*ns) : -1), "epoll_wait") == 1;
}

inline bool by_epoll_pwait2(int fd, Timeout ns) {
  const Descriptor epoll = epoll_of(fd);
  epoll_event event{};
  const timespec timeout = timespec_of(ns.value_or(0));
  return must(epoll_pwait2(epoll.get(), &event, 1, ns ? &timeout : nullptr, nullptr),
              "epoll_pwait2") == 1;
}

}  // namespace detail

// Whether `fd` can be read before the timeout is over.
inline bool wait_readable(const std::string& means, int fd, Timeout ns) {
  static const std::map<std::string, bool (*)(int, Timeout)> kMeans = {
      {"read", detail::by_read},
      {"poll", detail::by_poll},
      {"ppoll", detail::by_ppoll},
      {"select", detail::by_select},
      {"pselect", detail::by_pselect},
      {"epoll_wait", detail::by_epoll_wait},
      {"epoll_pwait2", detail::by_epoll_pwait2},
  };
  const auto it = kMeans.find(means);
  if (it == kMeans.end()) fail("no way to wait for a descriptor is called " + means);
  return it->second(fd, ns);
}

}  // namespace programs
