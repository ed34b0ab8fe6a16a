#include "timekeeper/preload/program_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "timekeeper/preload/fatal.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"

namespace warpserve {

namespace {

constexpr std::size_t kHeadBytes = 256;  // what the kernel reads of a "#!" line
constexpr std::size_t kMaxHeaders = 64;

class File {
 public:
  explicit File(const char* path)
      : fd_(raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0)) {}
  ~File() {
    if (fd_ >= 0) raw_syscall(SYS_close, fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // The number of bytes read; 0 where there are none.
  std::size_t read_at(std::size_t offset, void* data, std::size_t bytes) const {
    const long result = fd_ < 0 ? 0 : raw_syscall(SYS_pread64, fd_, data, bytes, offset);
    return result < 0 ? 0 : static_cast<std::size_t>(result);
  }

 private:
  const long fd_;
};

bool is_static_elf(const File& file) {
  Elf64_Ehdr header;
  if (file.read_at(0, &header, sizeof header) != sizeof header ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return false;
  }
  // A 32-bit program cannot load a 64-bit library.
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return true;
  Elf64_Phdr segments[kMaxHeaders];
  const std::size_t wanted = std::min<std::size_t>(header.e_phnum, kMaxHeaders);
  const std::size_t count =
      file.read_at(header.e_phoff, segments, wanted * sizeof(Elf64_Phdr)) / sizeof(Elf64_Phdr);
  return std::none_of(segments, segments + count,
                      [](const Elf64_Phdr& segment) { return segment.p_type == PT_INTERP; });
}

// The interpreter that a "#!" line names; false where the file has none.
bool interpreter_of(const File& file, char (&path)[kHeadBytes]) {
  char head[kHeadBytes] = {};
  file.read_at(0, head, sizeof head - 1);
  if (head[0] != '#' || head[1] != '!') return false;
  const char* first = head + 2 + strspn(head + 2, " \t");
  const std::size_t bytes = strcspn(first, " \t\r\n");
  memcpy(path, first, bytes);
  path[bytes] = '\0';
  return bytes > 0;
}

bool is_static(const char* path) {
  const File file(path);
  char interpreter[kHeadBytes];
  if (interpreter_of(file, interpreter)) return is_static_elf(File(interpreter));
  return is_static_elf(file);
}

// The first executable of that name in the search path; false where there is none.
bool find_in(const char* search_path, const char* name, char (&found)[kMaxPathBytes]) {
  const std::size_t name_bytes = strlen(name);
  for (const char* entry = search_path;; ++entry) {
    const std::size_t bytes = strcspn(entry, ":");
    if (bytes + name_bytes + 2 <= kMaxPathBytes) {
      memcpy(found, entry, bytes);
      std::size_t end = bytes;
      if (end != 0) found[end++] = '/';
      memcpy(found + end, name, name_bytes + 1);
      if (raw_syscall(SYS_access, found, X_OK) == 0) return true;
    }
    entry += bytes;
    if (*entry == '\0') return false;
  }
}

}  // namespace

void warn_if_static(const char* name, const char* search_path) {
  char found[kMaxPathBytes];
  const char* path = name;
  if (search_path != nullptr && strchr(name, '/') == nullptr) {
    if (!find_in(search_path, name, found)) return;
    path = found;
  }
  if (!is_static(path)) return;
  const bool is_first = count(Warning::kStaticBinary);
  if (is_first) say(path, " is a static binary: its clock is not virtual; others are only counted");
}

}  // namespace warpserve
