#include "timekeeper/server/shared_loop.hpp"

#include <algorithm>

namespace warpserve {
SharedLoop::SharedLoop() : helper_([this] { help(); }) {}

SharedLoop::~SharedLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  helper_.join();
}

void SharedLoop::run(std::size_t count, const Body& body) {
  std::unique_lock lock(mutex_);
  body_ = &body;
  count_ = count;
  next_ = 0;
  unfinished_ = count;
  work_.notify_one();
  take_pieces(lock);
  // The other thread is within its last piece: sleeping would take longer than that.
  while (unfinished_ != 0) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

void SharedLoop::help() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || next_ < count_; });
    if (stop_) return;
    take_pieces(lock);
  }
}

void SharedLoop::take_pieces(std::unique_lock<std::mutex>& lock) {
  while (next_ < count_) {
    const std::size_t begin = next_;
    const std::size_t end = std::min(count_, begin + kPiece);
    next_ = end;
    lock.unlock();
    for (std::size_t i = begin; i < end; ++i) (*body_)(i);
    lock.lock();
    unfinished_ -= end - begin;
  }
}

}  // namespace warpserve
