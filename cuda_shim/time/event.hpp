// CUDA events: the instant at which a stream had done what it was given before.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cuda_shim/device/session_clock.hpp"
#include "cuda_shim/time/completion.hpp"
#include "cuda_shim/time/graph.hpp"
#include "cuda_shim/time/status.hpp"

namespace warpserve::gpu {

class Capture;

struct EventOptions {
  bool timing = true;
  bool interprocess = false;
  bool blocking_sync = false;  // kept for who asks: all waits block
};

// Where in a capture an event was recorded.
struct CapturePoint {
  std::shared_ptr<Capture> capture;
  std::vector<NodeId> nodes;
};

// Where other processes see an event, too.
class EventMirror {
 public:
  EventMirror() = default;
  EventMirror(const EventMirror&) = delete;
  EventMirror& operator=(const EventMirror&) = delete;
  virtual ~EventMirror() = default;

  // This process has recorded it.
  virtual void set(const Completion& completion) = 0;
  // As it was recorded last, by whichever process.
  virtual Completion completion() = 0;
};

// An event that was never recorded is complete.
class Event {
 public:
  // `mirror` null: of this process alone.
  Event(SessionClock& clock, EventOptions options, std::shared_ptr<EventMirror> mirror)
      : clock_(clock), options_(options), mirror_(std::move(mirror)) {}

  const EventOptions& options() const { return options_; }

  // kNotReady before its instant, kCapturedEvent where it has none.
  Status query();
  Status synchronize();

  // From `start` to `end`. kInvalidHandle where either takes no times or was never recorded;
  // kNotReady where both were and either is still to come.
  static Status elapsed(Event& start, Event& end, VirtualDuration& elapsed);

  // When it was or will be reached. kInvalidHandle as above; kNotReady as long as that depends on
  // others.
  Status instant(VirtualTime& instant) const;

  // What a recording stream or graph sets.
  void set(const Completion& completion);
  void set(CapturePoint point);

  // What a waiting stream or graph asks.
  Completion completion() const;
  std::optional<CapturePoint> capture_point() const;

 private:
  // kOk where the event has an instant or will have one.
  Status completion_for_host(Completion& completion) const;
  // kOk where `timestamp` may be asked.
  Status check_recorded() const;
  Status timestamp(VirtualTime now, VirtualTime& instant) const;

  SessionClock& clock_;
  const EventOptions options_;
  const std::shared_ptr<EventMirror> mirror_;
  mutable std::mutex mutex_;
  bool recorded_ = false;
  Completion completion_;
  std::optional<CapturePoint> capture_point_;
};

}  // namespace warpserve::gpu
