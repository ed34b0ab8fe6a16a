// What the control thread tells the advance thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace warpserve {

// A thread of the Timekeeper answers members from now on.
struct ServerStarted {
  pid_t tid;
};

// A process said hello. It is welcomed once `known` is set: from then on its slots count.
struct ProcessJoined {
  pid_t pid;
  std::promise<void> known;
};

// A member became another program (exec), or lost its connection for good.
struct ProcessLeft {
  pid_t pid;
};

struct ProcessDied {
  pid_t pid;
  int signal;  // that killed it; 0: it ended by itself, or nobody can tell
};

// `answer` takes the session's state as JSON.
struct StateAsked {
  std::promise<std::string> answer;
};

struct EndAsked {
  std::string why;
};

// The launcher has begun to end members.
struct EndingTold {};

// All that the session had started has ended.
struct MembersEnded {
  std::size_t count;
};

using Event = std::variant<ServerStarted, ProcessJoined, ProcessLeft, ProcessDied, StateAsked,
                           EndAsked, EndingTold, MembersEnded>;

class EventQueue {
 public:
  // `wake` rouses the advance thread; it is called after each push.
  explicit EventQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void push(Event event) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      events_.push_back(std::move(event));
    }
    wake_();
  }

  // Nobody drains it any more. What is in it or comes later is dropped, so that whoever waits for
  // an answer gets std::future_error instead.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    events_.clear();
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return events_.empty();
  }

  std::vector<Event> drain() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  bool closed_ = false;
};

}  // namespace warpserve
