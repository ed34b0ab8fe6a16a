// The two mappings that members share with the Timekeeper. They are memfds: nothing of them has a
// name in the file system, and the kernel frees them with the last process that maps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "timekeeper/server/fd.hpp"
#include "timekeeper/shared/contract.hpp"

namespace warpserve {

class SharedMapping {
 public:
  // A zero-filled shared mapping of `bytes`, not resizable by anybody.
  SharedMapping(const char* name, std::size_t bytes);
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  ~SharedMapping();

  void* data() const { return data_; }
  int fd() const { return fd_.get(); }
  // From now on nobody can map it for writing, save through the mapping that exists already.
  void forbid_further_writers() const;

 private:
  Fd fd_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

struct SharedMemoryOptions {
  ClockMode mode;
  GuardKind guard;
  std::uint32_t slot_capacity;
  std::uint32_t spin_limit;
  std::int64_t spin_quantum_ns;
  std::int64_t realtime_epoch_ns;
};

// What the clock shows at this moment. Any thread.
VirtualTime virtual_now(const ClockPage& clock);

class SharedMemory {
 public:
  explicit SharedMemory(const SharedMemoryOptions& options);

  ClockPage& clock() const { return *static_cast<ClockPage*>(clock_.data()); }
  Board& board() const { return *static_cast<Board*>(board_.data()); }
  int clock_fd() const { return clock_.fd(); }
  int board_fd() const { return board_.fd(); }
  // As made: on the board members could overwrite it.
  std::uint32_t slot_capacity() const { return slot_capacity_; }

 private:
  SharedMapping clock_;
  SharedMapping board_;
  std::uint32_t slot_capacity_;
};

}  // namespace warpserve
