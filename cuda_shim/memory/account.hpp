// How much of each device, and of the host's memory, the processes of a session use together.
//
// A shared file with one entry a process. What is used is the sum of the entries whose process
// lives, so a process that is killed, at whatever instant, gives back all it had.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_shim/memory/file_descriptor.hpp"

namespace warpserve::gpu {

struct AccountFile;
struct AccountEntry;

// What is counted: a device, by its number, or the host's memory.
inline constexpr int kMaxDevices = 64;
inline constexpr int kHostColumn = kMaxDevices;

// Calls of one process are to be serialised by the caller. It belongs to the process that charges
// first: in a child that was forked later it grants nothing and takes nothing back, unless that
// begins anew.
class Account {
 public:
  struct Use {
    std::uint32_t pid = 0;
    std::uint64_t bytes = 0;
  };

  // `path` empty: of this process alone. Throws MemoryError.
  explicit Account(const std::string& path);
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // False where all together would use more than `limit_bytes`.
  [[nodiscard]] bool charge(int column, std::uint64_t bytes, std::uint64_t limit_bytes);
  void give_back(int column, std::uint64_t bytes);

  // From now on the caller's, which has nothing yet.
  void begin_anew() { entry_ = nullptr; }

  std::uint64_t used_bytes(int column);
  // The processes that use any of it.
  std::vector<Use> uses(int column);

 private:
  class Lock;

  bool is_callers() const;
  // With the file locked:
  std::uint64_t sum(int column) const;
  void forget_the_dead();
  AccountEntry& own_entry();

  FileDescriptor fd_;
  AccountFile* file_ = nullptr;
  AccountEntry* entry_ = nullptr;  // claimed at the first charge
  pid_t pid_ = 0;                  // whose it is
};

}  // namespace warpserve::gpu
