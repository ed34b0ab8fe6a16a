#include "timekeeper/server/session_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "timekeeper/server/errors.hpp"

namespace warpserve {

SessionLock::SessionLock(const std::filesystem::path& session_folder) {
  const auto file = session_folder / kLockFile;
  fd_ = Fd(open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd_.valid()) {
    throw UsageError("cannot open " + file.string() + ": " + std::strerror(errno));
  }
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return;
  throw UsageError(errno == EWOULDBLOCK
                       ? "another Timekeeper runs in " + session_folder.string() +
                             "; use another folder, or end that session first"
                       : "cannot lock " + file.string() + ": " + std::strerror(errno));
}

}  // namespace warpserve
