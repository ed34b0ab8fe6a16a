// A loop that a second thread takes its share of, if it gets a CPU in time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>

namespace warpserve {

class SharedLoop {
 public:
  using Body = std::function<void(std::size_t)>;

  SharedLoop();
  ~SharedLoop();
  SharedLoop(const SharedLoop&) = delete;
  SharedLoop& operator=(const SharedLoop&) = delete;

  // Calls body(i) once for each i below `count`, in any order, here or in the other thread; returns
  // when all calls have returned. `body` does not throw. Not re-entrant, one caller at a time.
  void run(std::size_t count, const Body& body);

 private:
  // What is left is handed out in pieces, so that neither thread waits long for the other.
  static constexpr std::size_t kPiece = 4;

  void help();
  void take_pieces(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable work_;  // pieces are left, or stop_
  const Body* body_ = nullptr;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::size_t unfinished_ = 0;
  bool stop_ = false;
  std::thread helper_;
};

}  // namespace warpserve
