#include "timekeeper/server/shared_loop.hpp"

#include <algorithm>

#include "timekeeper/server/host_clock.hpp"

namespace warpserve {
namespace {
constexpr auto kExpectedWithin = HostDuration::from_us(100);
}  // namespace

SharedLoop::SharedLoop() : helper_([this] { help(); }) {}

SharedLoop::~SharedLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  helper_.join();
}

void SharedLoop::expect_run() {
  {
    const std::lock_guard lock(mutex_);
    expected_ = true;
  }
  work_.notify_one();
}

void SharedLoop::run(std::size_t count, const Body& body) {
  std::unique_lock lock(mutex_);
  body_ = &body;
  count_ = count;
  next_ = 0;
  unfinished_ = count;
  expected_ = false;
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
    work_.wait(lock, [this] { return stop_ || expected_ || next_ < count_; });
    if (stop_) return;
    await_expected(lock);
    take_pieces(lock);
  }
}

void SharedLoop::await_expected(std::unique_lock<std::mutex>& lock) {
  const HostTime deadline = host_now() + kExpectedWithin;
  while (expected_ && !stop_ && host_now() < deadline) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  expected_ = false;
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
