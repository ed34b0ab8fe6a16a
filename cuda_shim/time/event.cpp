#include "cuda_shim/time/event.hpp"

#include <utility>

#include "cuda_shim/time/capture.hpp"

namespace warpserve::gpu {

Status Event::query() {
  Completion completion;
  if (const Status status = completion_for_host(completion); status != Status::kOk) return status;
  if (completion.reached(clock_.now())) return Status::kOk;
  clock_.note_idle_poll();
  return Status::kNotReady;
}

Status Event::synchronize() {
  Completion completion;
  if (const Status status = completion_for_host(completion); status != Status::kOk) return status;
  completion.await_reached(clock_);
  return Status::kOk;
}

Status Event::elapsed(Event& start, Event& end, VirtualDuration& elapsed) {
  for (const Event* event : {&start, &end}) {
    if (const Status status = event->check_recorded(); status != Status::kOk) return status;
  }
  const VirtualTime now = end.clock_.now();
  VirtualTime from;
  VirtualTime until;
  if (const Status status = start.timestamp(now, from); status != Status::kOk) return status;
  if (const Status status = end.timestamp(now, until); status != Status::kOk) return status;
  elapsed = until - from;
  return Status::kOk;
}

Status Event::instant(VirtualTime& instant) const {
  if (const Status status = check_recorded(); status != Status::kOk) return status;
  const std::lock_guard lock(mutex_);
  const std::optional<VirtualTime> known = completion_.instant();
  if (!known) return Status::kNotReady;
  instant = *known;
  return Status::kOk;
}

void Event::set(const Completion& completion) {
  if (mirror_ != nullptr) mirror_->set(completion);
  const std::lock_guard lock(mutex_);
  recorded_ = true;
  completion_ = completion;
  capture_point_.reset();
}

void Event::set(CapturePoint point) {
  const std::lock_guard lock(mutex_);
  recorded_ = true;
  capture_point_ = std::move(point);
}

Completion Event::completion() const {
  if (mirror_ != nullptr) return mirror_->completion();
  const std::lock_guard lock(mutex_);
  return completion_;
}

std::optional<CapturePoint> Event::capture_point() const {
  const std::lock_guard lock(mutex_);
  return capture_point_;
}

Status Event::completion_for_host(Completion& completion) const {
  if (HostFunctions::running_in_this_thread()) return Status::kNotPermitted;
  if (const auto point = capture_point()) {
    point->capture->invalidate();
    return Status::kCapturedEvent;
  }
  if (const Status status = check_unsafe_call(); status != Status::kOk) return status;
  completion = this->completion();
  return Status::kOk;
}

Status Event::check_recorded() const {
  const std::lock_guard lock(mutex_);
  if (!options_.timing || !recorded_) return Status::kInvalidHandle;
  return capture_point_ ? Status::kCapturedEvent : Status::kOk;
}

Status Event::timestamp(VirtualTime now, VirtualTime& instant) const {
  const std::lock_guard lock(mutex_);
  if (!completion_.reached(now)) return Status::kNotReady;
  instant = *completion_.instant();
  return Status::kOk;
}

}  // namespace warpserve::gpu
