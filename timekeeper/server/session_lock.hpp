// One Timekeeper a session folder: an flock that the kernel drops when its holder dies.
#pragma once

#include <filesystem>

#include "timekeeper/server/fd.hpp"

namespace warpserve {

inline constexpr char kLockFile[] = "lock";

class SessionLock {
 public:
  // Throws UsageError where another Timekeeper holds the folder, or it can't be used.
  explicit SessionLock(const std::filesystem::path& session_folder);

 private:
  Fd fd_;
};

}  // namespace warpserve
