// Scenes for tests of settle: each runs in a process of its own that plays the Timekeeper, with
// real processes below it.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "timekeeper/server/fd.hpp"
#include "timekeeper/server/process_watch.hpp"

namespace scene {

// Runs `body` in a child that is a child subreaper; afterwards kills all that it left behind.
// Failed checks in it fail the calling test.
void as_timekeeper(const std::function<void()>& body);

// A child of the caller, which ends with the caller.
pid_t start(const std::function<void()>& body);
pid_t start_program(const std::vector<std::string>& command);
void end(pid_t pid);

// Burns CPU until killed.
[[noreturn]] void spin();
// Sleeps in read() of an empty pipe until killed.
[[noreturn]] void sleep_for_ever();
void pause_host(std::chrono::microseconds time);

// Looks until the session is settled, or gives up after 10 s of host time.
bool settles(warpserve::ProcessWatch& watch);
// Looks until `wanted` says yes about who is busy, or gives up after 10 s.
std::optional<warpserve::Busy> busy_until(
    warpserve::ProcessWatch& watch, const std::function<bool(const warpserve::Busy&)>& wanted);

struct Pipe {
  Pipe();
  void signal() const;
  void await() const;
  warpserve::Fd read_end;
  warpserve::Fd write_end;
};

// An object that forked processes share.
template <class T>
class Shared {
 public:
  Shared()
      : object_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                          -1, 0)) T()) {}
  ~Shared() { munmap(object_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return object_; }

 private:
  T* object_;
};

}  // namespace scene
