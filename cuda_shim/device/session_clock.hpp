// The session's clock, as device time sees it: read it, and block until an instant or a
// notification. Inside a session a timed wait of any kind is a jump.
#pragma once

#include <condition_variable>
#include <mutex>

#include "timekeeper/core/types.hpp"

namespace warpserve::gpu {

class SessionClock {
 public:
  SessionClock() = default;
  SessionClock(const SessionClock&) = delete;
  SessionClock& operator=(const SessionClock&) = delete;
  virtual ~SessionClock() = default;

  virtual VirtualTime now() = 0;

  // Blocks the thread until `target`, or the end of the session. At once where it has passed.
  virtual void wait_until(VirtualTime target) = 0;

  // Blocks until notified or until `target`, or the end of the session; may wake for no reason.
  // True where it was not a notification: the target is reached, or nothing will ever reach it. A
  // wait for a notification alone is `condition.wait(lock)`.
  virtual bool wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                          VirtualTime target) = 0;

  // A program asked whether something is ready, and it was not. In `exact` time stands still while
  // a thread runs: one that only asks, over and over, has to be charged for it (a busy-wait).
  virtual void note_idle_poll() = 0;
};

// The clock of this process: the session's where it is a member, else the host's, with time 0 at
// the first call, and real sleeps.
SessionClock& process_clock();

}  // namespace warpserve::gpu
