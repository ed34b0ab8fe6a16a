#include "cuda_shim/memory/account.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cuda_shim/memory/options.hpp"
#include "cuda_shim/memory/process.hpp"

namespace warpserve::gpu {
namespace {

constexpr std::uint64_t kMagic = 0x4e55434341505257;  // "WRPACCUN"
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMaxProcesses = 1024;

}  // namespace

// Written by its process only, but for what is forgotten of the dead.
struct AccountEntry {
  std::uint64_t pid = 0;  // 0: nobody's
  std::uint64_t start = 0;
  std::array<std::uint64_t, kMaxDevices + 1> used_bytes{};
};

struct AccountFile {
  std::uint64_t magic = 0;
  std::uint64_t version = 0;
  std::uint64_t high_water = 0;  // entries from here on were never claimed
  std::array<AccountEntry, kMaxProcesses> entries;
};

// A record lock: the kernel takes it back when the process ends, and a forked child has no part in
// it. It is lost when the process closes any descriptor of the file, so that is opened only once.
class Account::Lock {
 public:
  explicit Lock(int fd) : fd_(fd) { set(F_WRLCK); }
  ~Lock() { set(F_UNLCK); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  void set(short type) const {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    while (fcntl(fd_, F_SETLKW, &lock) != 0) {
      if (errno != EINTR) {
        throw MemoryError(std::string("The account of GPU memory can't be locked: ") +
                          std::strerror(errno));
      }
    }
  }
  int fd_;
};

Account::Account(const std::string& path) {
  const std::string name = path.empty() ? "memory file" : path;
  fd_ = FileDescriptor(path.empty() ? memfd_create("warpserve-gpu-account", MFD_CLOEXEC)
                                    : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd_.valid()) {
    throw MemoryError("The account of GPU memory, " + name + ", can't be opened: " +
                      std::strerror(errno) + ". Is the session's folder still there?");
  }
  const Lock lock(fd_.get());
  struct stat found{};
  const auto bytes = static_cast<off_t>(sizeof(AccountFile));
  if (fstat(fd_.get(), &found) != 0 || (found.st_size != 0 && found.st_size != bytes)) {
    throw MemoryError("The account of GPU memory, " + name + ", is something else.");
  }
  if (found.st_size == 0 && ftruncate(fd_.get(), bytes) != 0) {
    throw MemoryError("The account of GPU memory, " + name +
                      ", can't be written: " + std::strerror(errno));
  }
  void* const at =
      mmap(nullptr, sizeof(AccountFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (at == MAP_FAILED) {
    throw MemoryError("The account of GPU memory, " + name +
                      ", can't be mapped: " + std::strerror(errno));
  }
  file_ = static_cast<AccountFile*>(at);
  if (found.st_size == 0) {
    file_->version = kVersion;
    file_->magic = kMagic;
  }
  if (file_->magic != kMagic || file_->version != kVersion) {
    munmap(file_, sizeof(AccountFile));
    throw MemoryError("The account of GPU memory, " + name +
                      ", is of another version. Use one version of warpserve in a session.");
  }
}

Account::~Account() {
  if (entry_ != nullptr && is_callers()) {
    const Lock lock(fd_.get());
    *entry_ = {};
  }
  munmap(file_, sizeof(AccountFile));
}

bool Account::charge(int column, std::uint64_t bytes, std::uint64_t limit_bytes) {
  if (!is_callers() || bytes > limit_bytes) return false;
  const Lock lock(fd_.get());
  if (sum(column) > limit_bytes - bytes) {
    forget_the_dead();
    if (sum(column) > limit_bytes - bytes) return false;
  }
  own_entry().used_bytes.at(static_cast<std::size_t>(column)) += bytes;
  return true;
}

void Account::give_back(int column, std::uint64_t bytes) {
  if (!is_callers()) return;
  const Lock lock(fd_.get());
  own_entry().used_bytes.at(static_cast<std::size_t>(column)) -= bytes;
}

std::uint64_t Account::used_bytes(int column) {
  const Lock lock(fd_.get());
  forget_the_dead();
  return sum(column);
}

std::vector<Account::Use> Account::uses(int column) {
  const Lock lock(fd_.get());
  forget_the_dead();
  std::vector<Use> uses;
  for (std::size_t i = 0; i < file_->high_water; ++i) {
    const AccountEntry& entry = file_->entries.at(i);
    const std::uint64_t bytes = entry.used_bytes.at(static_cast<std::size_t>(column));
    if (entry.pid != 0 && bytes > 0) uses.push_back({static_cast<std::uint32_t>(entry.pid), bytes});
  }
  return uses;
}

bool Account::is_callers() const {
  return entry_ == nullptr || getpid() == pid_;
}

std::uint64_t Account::sum(int column) const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < file_->high_water; ++i) {
    total += file_->entries.at(i).used_bytes.at(static_cast<std::size_t>(column));
  }
  return total;
}

void Account::forget_the_dead() {
  for (std::size_t i = 0; i < file_->high_water; ++i) {
    AccountEntry& entry = file_->entries.at(i);
    if (entry.pid == 0 || &entry == entry_) continue;
    if (process_start(static_cast<std::uint32_t>(entry.pid)) != entry.start) entry = {};
  }
}

AccountEntry& Account::own_entry() {
  if (entry_ != nullptr) return *entry_;
  forget_the_dead();
  const auto free = std::find_if(file_->entries.begin(), file_->entries.end(),
                                 [](const AccountEntry& entry) { return entry.pid == 0; });
  if (free == file_->entries.end()) {
    throw MemoryError("More than " + std::to_string(kMaxProcesses) +
                      " processes of the session use GPUs.");
  }
  pid_ = getpid();
  const auto pid = static_cast<std::uint32_t>(pid_);
  free->start = process_start(pid).value_or(0);
  free->pid = pid;
  entry_ = free;
  const auto index = static_cast<std::uint64_t>(free - file_->entries.begin());
  file_->high_water = std::max(file_->high_water, index + 1);
  return *entry_;
}

}  // namespace warpserve::gpu
