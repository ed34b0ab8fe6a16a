// A forked child that runs a function, and a word-wide pipe in each direction.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <functional>

#include "tests/native/check.hpp"

namespace warpserve::gpu {

class Pipe {
 public:
  Pipe() { REQUIRE(pipe(ends_.data()) == 0); }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  template <class T>
  void send(const T& value) const {
    REQUIRE(write(ends_[1], &value, sizeof value) == sizeof value);
  }
  template <class T>
  T receive() const {
    T value{};
    REQUIRE(read(ends_[0], &value, sizeof value) == sizeof value);
    return value;
  }

 private:
  std::array<int, 2> ends_{};
};

class ChildProcess {
 public:
  // The child ends with status 0 where the body returns without a failed check.
  using Body = std::function<void(const Pipe& from_parent, const Pipe& to_parent)>;

  explicit ChildProcess(const Body& body) : pid_(fork()) {
    if (pid_ != 0) return;
    int status = 0;
    try {
      body(to_child_, to_parent_);
    } catch (const std::exception&) {
      status = 1;
    }
    std::cout.flush();
    _exit(status != 0 || check::failures() > 0 ? 1 : 0);
  }
  ~ChildProcess() {
    if (pid_ > 0) kill_and_reap();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  template <class T>
  void send(const T& value) const {
    to_child_.send(value);
  }
  template <class T>
  T receive() const {
    return to_parent_.receive<T>();
  }

  // The wait status.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  void kill_and_reap() {
    kill(pid_, SIGKILL);
    wait();
  }

 private:
  Pipe to_child_;
  Pipe to_parent_;
  pid_t pid_;
};

}  // namespace warpserve::gpu
