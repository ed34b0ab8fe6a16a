// A device as one process uses it: its streams and copy engines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_shim/device/profile.hpp"
#include "cuda_shim/device/session_clock.hpp"
#include "cuda_shim/time/event.hpp"
#include "cuda_shim/time/stream.hpp"
#include "cuda_shim/time/work.hpp"

namespace warpserve::gpu {

enum class CopyDirection { kHostToDevice, kDeviceToHost, kDeviceToDevice };

// Outlives its streams and events, and the calls of all threads; `machine` and `clock` outlive it.
class Context {
 public:
  Context(const Machine& machine, int device, SessionClock& clock);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int device() const { return device_; }
  SessionClock& clock() const { return clock_; }

  std::shared_ptr<Stream> create_stream(StreamOptions options = {});
  std::shared_ptr<Event> create_event(EventOptions options = {},
                                      std::shared_ptr<EventMirror> mirror = nullptr);
  // The stream 0 of programs compiled without per-thread default streams.
  Stream& legacy_stream() { return *legacy_; }
  // The calling thread's own default stream, a blocking one. Gone with the thread.
  Stream& per_thread_stream();

  // Blocks the thread until all work of all streams so far is done. Refused while one captures.
  Status synchronize();
  // The same beside captures, whose work is not done yet.
  Status await_work();

  // A copy within the device or between it and the host. It holds the engine of its direction.
  CopyWork copy_work(CopyDirection direction, std::uint64_t bytes) const;
  // A copy to another device, over the link between the two.
  CopyWork peer_copy_work(int to_device, std::uint64_t bytes) const;
  // A memset of so many bytes at the speed of the device's memory.
  FillWork fill_work(std::uint64_t bytes) const;
  HostWork host_work(std::function<void()> function) const;

 private:
  friend class Stream;

  // With mutex_ held:
  // When the next work of a stream may begin.
  Completion ready(const Stream& stream) const;
  Completion all_blocking_work() const;
  void add(Stream& stream);
  void remove(Stream& stream);

  friend class LiveContexts;
  void forget_thread(std::uint64_t thread);

  const Machine& machine_;
  const int device_;
  SessionClock& clock_;
  const std::shared_ptr<CopyEngine> host_to_device_;
  const std::shared_ptr<CopyEngine> device_to_host_;
  const std::shared_ptr<CopyEngine> device_to_device_;
  const std::shared_ptr<HostFunctions> host_functions_;

  mutable std::mutex mutex_;
  std::vector<Stream*> streams_;
  // The work of streams that are gone.
  Completion retired_;
  Completion retired_blocking_;
  std::unique_ptr<Stream> legacy_;
  std::map<std::uint64_t, std::unique_ptr<Stream>> per_thread_;  // by a number never used again
};

}  // namespace warpserve::gpu
