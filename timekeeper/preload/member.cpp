#include "timekeeper/preload/member.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "timekeeper/preload/descriptors.hpp"
#include "timekeeper/preload/fatal.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/signal_safe_lock.hpp"
#include "timekeeper/preload/thread_state.hpp"
#include "timekeeper/preload/timer_descriptors.hpp"
#include "timekeeper/preload/timers.hpp"

namespace warpserve {

constinit Member member;

namespace {

constexpr std::size_t kPageBytes = 4096;

// Serialises requests on the control connection.
constinit SignalSafeLock control_lock;

// A packet with its descriptors; -1 where there is none.
struct Packet {
  ControlMessage message{};
  int fds[2] = {-1, -1};
};

void close_descriptors(const Packet& packet) {
  for (const int fd : packet.fds) {
    if (fd >= 0) raw_syscall(SYS_close, fd);
  }
}

bool send_packet(int socket, Packet& packet) {
  iovec part{&packet.message, sizeof packet.message};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (packet.fds[0] >= 0) {
    header.msg_control = ancillary;
    header.msg_controllen = sizeof ancillary;
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &packet.fds[0], sizeof(int));
  }
  return raw_syscall(SYS_sendmsg, socket, &header, MSG_NOSIGNAL) ==
         static_cast<long>(sizeof packet.message);
}

bool receive_packet(int socket, Packet& packet) {
  iovec part{&packet.message, sizeof packet.message};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(2 * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = ancillary;
  header.msg_controllen = sizeof ancillary;
  long bytes = 0;
  do {
    bytes = raw_syscall(SYS_recvmsg, socket, &header, MSG_CMSG_CLOEXEC);
  } while (bytes == -EINTR);
  const cmsghdr* control = bytes > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (control != nullptr && control->cmsg_type == SCM_RIGHTS) {
    memcpy(packet.fds, CMSG_DATA(control), control->cmsg_len - CMSG_LEN(0));
  }
  packet.message.text[kControlTextBytes - 1] = '\0';
  return bytes == static_cast<long>(sizeof packet.message) && packet.message.magic == kControlMagic;
}

bool read_token(const char* folder, unsigned char (&token)[kTokenBytes]) {
  Line path;
  path << folder << "/" << kTokenFile;
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return false;
  const long bytes = raw_syscall(SYS_read, fd, token, kTokenBytes);
  raw_syscall(SYS_close, fd);
  return bytes == static_cast<long>(kTokenBytes);
}

Packet request_of(ControlType type) {
  Packet packet;
  packet.message.magic = kControlMagic;
  packet.message.contract_version = kContractVersion;
  packet.message.type = type;
  return packet;
}

// Returns the connected socket, or -errno.
int connect_to(const char* folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  Line path;
  path << folder << "/" << kControlSocket;
  static_assert(kMaxFolderBytes + sizeof kControlSocket <= sizeof address.sun_path);
  memcpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const long socket = raw_syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (socket < 0) return static_cast<int>(socket);
  long result = 0;
  do {
    result = raw_syscall(SYS_connect, socket, &address, sizeof address);
  } while (result == -EINTR);
  if (result < 0) {
    raw_syscall(SYS_close, socket);
    return static_cast<int>(result);
  }
  return static_cast<int>(socket);
}

// Connects and says hello. On kJoined, member.control_fd is the connection and `welcome` holds the
// descriptors of the clock page and the board.
JoinResult say_hello(const char* folder, Packet& welcome, Line& why) {
  Packet hello = request_of(ControlType::kHello);
  if (!read_token(folder, hello.message.token)) {
    why << "its token cannot be read (has the session ended?)";
    return JoinResult::kNoTimekeeper;
  }
  const int socket = connect_to(folder);
  if (socket < 0) {
    why << "its Timekeeper does not answer: " << strerrordesc_np(-socket);
    return JoinResult::kNoTimekeeper;
  }
  if (!send_packet(socket, hello) || !receive_packet(socket, welcome)) {
    raw_syscall(SYS_close, socket);
    why << "its Timekeeper closed the connection";
    return JoinResult::kNoTimekeeper;
  }
  if (welcome.message.type != ControlType::kWelcome) {
    raw_syscall(SYS_close, socket);
    close_descriptors(welcome);
    why << "refused: " << welcome.message.text;
    return JoinResult::kRefused;
  }
  const int kept = keep_descriptor(socket);
  if (kept < 0) {
    close_descriptors(welcome);
    why << "no descriptor is left for the connection";
    return JoinResult::kRefused;
  }
  member.control_fd.store(kept);
  return JoinResult::kJoined;
}

void* map(int fd, std::size_t bytes, int protection) {
  const long address =
      raw_syscall(SYS_mmap, nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  return is_syscall_error(address) ? nullptr : reinterpret_cast<void*>(address);
}

bool map_shared_memory(const Packet& welcome, Line& why) {
  const auto* page =
      static_cast<const ClockPage*>(map(welcome.fds[0], sizeof(ClockPage), PROT_READ));
  const auto* header = static_cast<const Board*>(map(welcome.fds[1], sizeof(Board), PROT_READ));
  if (page == nullptr || header == nullptr || page->magic != kClockMagic ||
      header->magic != kBoardMagic) {
    why << "the Timekeeper sent something that is not a clock and a board";
    return false;
  }
  if (page->contract_version != kContractVersion || header->contract_version != kContractVersion) {
    why << "the Timekeeper speaks contract version " << static_cast<long>(page->contract_version)
        << ", this library speaks " << static_cast<long>(kContractVersion);
    return false;
  }
  const std::size_t bytes = board_bytes(header->capacity);
  raw_syscall(SYS_munmap, header, sizeof(Board));
  member.board = static_cast<Board*>(map(welcome.fds[1], bytes, PROT_READ | PROT_WRITE));
  if (member.board == nullptr) {
    why << "the board cannot be mapped";
    return false;
  }
  if (page->mode == ClockMode::kExact) {
    member.spin_limits[0] = page->spin_limit;
    member.spin_limits[1] = page->spin_limit == 0 ? 0 : page->spin_limit / 100 + 1;
  }
  member.clock_page = page;
  return true;
}

bool mark_process(Line& why) {
  const long page = raw_syscall(SYS_mmap, nullptr, kPageBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (is_syscall_error(page) || raw_syscall(SYS_madvise, page, kPageBytes, MADV_WIPEONFORK) != 0) {
    why << "the kernel has no MADV_WIPEONFORK (it came with Linux 4.14)";
    return false;
  }
  member.same_process = reinterpret_cast<volatile std::uint32_t*>(page);
  *member.same_process = 1;
  return true;
}

bool say_hello_again(Line& why) {
  Packet welcome;
  if (say_hello(member.folder, welcome, why) != JoinResult::kJoined) return false;
  close_descriptors(welcome);
  return true;
}

bool request(Packet request, Packet& reply) {
  const int socket = member.control_fd.load();
  return socket >= 0 && send_packet(socket, request) && receive_packet(socket, reply);
}

}  // namespace

JoinResult join(const char* folder, Line& why) {
  if (member.clock_page != nullptr) {
    why << "the process is a member of " << member.folder << " already";
    return JoinResult::kAlreadyMember;
  }
  if (strlen(folder) >= kMaxFolderBytes) {
    why << "the session folder's path is longer than " << static_cast<long>(kMaxFolderBytes - 1)
        << " bytes";
    return JoinResult::kRefused;
  }
  strncpy(member.folder, folder, kMaxFolderBytes - 1);
  member.pid = static_cast<std::uint32_t>(raw_syscall(SYS_getpid));
  if (!mark_process(why)) return JoinResult::kRefused;
  Packet welcome;
  const JoinResult result = say_hello(folder, welcome, why);
  if (result != JoinResult::kJoined) return result;
  const bool mapped = map_shared_memory(welcome, why);
  close_descriptors(welcome);
  return mapped ? JoinResult::kJoined : JoinResult::kRefused;
}

bool give_wake_fd(std::uint32_t slot_index, int eventfd) {
  const SignalSafeGuard guard(control_lock);
  Packet gift = request_of(ControlType::kWakeFd);
  gift.message.value = slot_index;
  gift.fds[0] = eventfd;
  Packet reply;
  if (!request(gift, reply)) {
    // The program has closed our connection behind our back: the Timekeeper takes us in again.
    drop_descriptor(member.control_fd.exchange(-1));
    Line why;
    if (!say_hello_again(why) || !request(gift, reply)) return false;
  }
  close_descriptors(reply);
  if (reply.message.type == ControlType::kDone) return true;
  die("the Timekeeper refused a wake-up descriptor: ", reply.message.text);
}

void become_new_member_after_fork() {
  *member.same_process = 1;
  member.pid = static_cast<std::uint32_t>(raw_syscall(SYS_getpid));
  ++member.generation;
  own_state();
  control_lock.forget_owner();
  forget_timers_after_fork();
  forget_timer_descriptors_after_fork();
  member.control_fd.store(-1);
  for (int fd = next_our_descriptor(0); fd >= 0; fd = next_our_descriptor(fd + 1)) {
    drop_descriptor(fd);
  }
  Line why;
  if (!say_hello_again(why)) {
    die("a forked process cannot join the session at ", member.folder, ": ", why.c_str());
  }
}

std::uint32_t current_tid() {
  return static_cast<std::uint32_t>(raw_syscall(SYS_gettid));
}

}  // namespace warpserve
