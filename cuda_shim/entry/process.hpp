// The GPUs that this process sees, and what its threads have chosen of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_shim/entry/error.hpp"
#include "cuda_shim/time/context.hpp"

namespace warpserve::gpu {

// What a CUcontext stands for. Contexts of one device share its streams' time.
struct DriverContext {
  int device = 0;
  bool primary = false;
  std::uint32_t flags = 0;
  std::uint64_t id = 0;
};

// Numbers contexts; never the same again.
std::uint64_t next_context_id();

// A device of CUDA_VISIBLE_DEVICES.
struct Device {
  int ordinal;
  int physical;  // in the machine, and for NVML
  Context time;
  std::shared_ptr<DriverContext> primary_context;
  std::mutex mutex;
  int primary_references = 0;                     // one is the runtime's; guarded by mutex
  std::uint32_t primary_flags = 0;                // guarded by mutex
  std::vector<bool> peer_access;                  // to others, by ordinal; guarded by mutex
  std::map<std::uint32_t, std::uint64_t> limits;  // that were set; guarded by mutex

  Device(const Machine& machine, int ordinal, int physical, int count, SessionClock& clock);
  // Before anything is done on the device: its context takes its memory, once. Throws
  // Failure(kOutOfMemory).
  void open();
  bool is_open() const { return open_; }
  // The runtime retains the primary context, once.
  void retain_for_runtime();
  // Throws Failure(kInvalidContext) where nobody retains it.
  void release_primary();
  // Back to the beginning.
  void close();

 private:
  std::atomic<bool> open_ = false;
  std::atomic<bool> runtime_retains_ = false;
};

class Process {
 public:
  // Throws ProfileError where the session names no GPUs; Failure(kNotInitialized) in a child that
  // was forked after its parent had begun to use CUDA: as on a real GPU, it has to be spawned.
  static Process& get();
  // Such a child may use CUDA as if it had been spawned, where its parent had no memory of the
  // GPUs. Throws Failure(kNotInitialized) where that had.
  static void begin_anew();

  const Machine& machine() const { return machine_; }
  int device_count() const { return static_cast<int>(devices_.size()); }
  // Throws Failure(kInvalidDevice); kNoDevice where there is none.
  Device& device(int ordinal);
  const DeviceProfile& profile(int ordinal) { return machine_.device(device(ordinal).physical); }
  // Throws Failure(kInvalidDevice) where the device lacks the attribute's number (kInvalidValue).
  int attribute(int number, int ordinal);

 private:
  Process();

  const Machine& machine_;
  std::vector<std::unique_ptr<Device>> devices_;
};

// The physical indices that CUDA_VISIBLE_DEVICES (null: all) gives, in its order. As in CUDA, the
// first entry that names no device, or names one again, ends the list.
std::vector<int> visible_devices(const Machine& machine, const char* variable);

// The state of one host thread.
struct Thread {
  int device = 0;                                        // of cudaSetDevice
  std::vector<std::shared_ptr<DriverContext>> contexts;  // the current one last; null: none
  Error last_error = Error::kSuccess;
  bool in_driver_call = false;  // which selects no context

  static Thread& get();

  // The device of the current context, else the one that was set.
  int current_device() const;
  // Makes the device's primary context current, as cudaSetDevice does.
  void set_device(Device& chosen);
  // Throws Failure(kInvalidContext) where there is none.
  std::shared_ptr<DriverContext> current_context() const;
};

// The device of the current context, open. Where none is current the driver's calls throw
// Failure(kInvalidContext); the runtime's, and those of libraries on top of it, make the primary
// context current. Throws Failure(kContextIsDestroyed) where that was reset and the driver asks.
Device& current_device();

// From cuInit on the driver's calls work. Throws Failure(kNoDevice) where there is none.
void initialize_driver();
void mark_driver_initialized();
bool is_driver_initialized();

}  // namespace warpserve::gpu
