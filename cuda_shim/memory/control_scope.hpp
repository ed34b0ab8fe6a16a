// How a patch says that what is allocated now is read or computed with by the engine's own logic.
#pragma once

namespace warpserve::gpu {

// While one exists, all that this thread allocates is control memory. Scopes nest.
class ControlScope {
 public:
  ControlScope() { ++depth_; }
  ~ControlScope() { --depth_; }
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;

  static bool active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace warpserve::gpu
