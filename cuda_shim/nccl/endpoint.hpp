// A process as other ranks reach it: they ring it, read what it has staged, and notice its death.
//
// A thread of it sleeps in poll() on a pipe, whose write end the peers open through /proc/PID/fd,
// and on the pidfds of the peers. There is nothing in any file system, and nothing that outlives
// the process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_shim/memory/file_descriptor.hpp"
#include "cuda_shim/nccl/staging.hpp"

namespace warpserve::gpu::nccl {

// What others have to know of a process; lies in shared memory.
struct ProcessAddress {
  std::uint32_t pid = 0;
  std::int32_t ring_fd = -1;
  std::int32_t staging_fd = -1;
  std::uint64_t start = 0;  // tells it from another process with its pid
};

// Descriptor `fd` of another process, opened with these flags. Invalid where that has ended.
FileDescriptor open_descriptor(std::uint32_t pid, std::uint64_t start, int fd, int flags);

// Another process, or this one. It may have ended.
class Peer {
 public:
  explicit Peer(const ProcessAddress& address);

  const ProcessAddress& address() const { return address_; }
  // Has its listeners look.
  void ring() const;
  // Null where it had ended before it was looked for.
  const std::byte* staged(std::uint64_t offset) const {
    return staging_.data() == nullptr ? nullptr : staging_.data() + offset;
  }
  bool alive() const { return alive_.load(); }

 private:
  friend class Endpoint;

  const ProcessAddress address_;
  FileDescriptor ring_;
  FileDescriptor process_;  // a pidfd
  Mapping staging_;
  std::atomic<bool> alive_{true};
};

class Listener {
 public:
  virtual ~Listener() = default;
  // Someone has rung, or a peer has died: look at what you share. In the endpoint's thread.
  virtual void on_ring() = 0;
};

// Of this process. Any thread may call anything.
class Endpoint {
 public:
  // Made at the first call. Throws NcclFailure(kSystemError).
  static Endpoint& get();

  const ProcessAddress& address() const { return address_; }
  Staging& staging() { return staging_; }
  // The same one for the same process.
  std::shared_ptr<Peer> peer(const ProcessAddress& address);
  void add(const std::weak_ptr<Listener>& listener);

 private:
  Endpoint();
  void run();
  void wait(const std::vector<std::shared_ptr<Peer>>& peers) const;
  std::vector<std::shared_ptr<Peer>> living_peers();
  std::vector<std::shared_ptr<Listener>> living_listeners();

  Staging staging_;
  FileDescriptor ring_;     // read end
  FileDescriptor ringing_;  // write end
  ProcessAddress address_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::weak_ptr<Peer>> peers_;  // by pid
  std::vector<std::weak_ptr<Listener>> listeners_;
};

}  // namespace warpserve::gpu::nccl
