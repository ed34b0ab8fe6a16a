// Sockets: the kernel may hold nothing back while all threads sleep, as Nagle's algorithm and
// corked sockets would until a host timer comes.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/raw_syscall.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/thread_state.hpp"

using namespace warpserve;

namespace {

// Refused, without harm, by what is not TCP.
void send_at_once(int fd) {
  if (fd < 0 || !is_member()) return;
  const int on = 1;
  raw_syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool is_tcp(int domain, int type, int protocol) {
  const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  return (domain == AF_INET || domain == AF_INET6) && kind == SOCK_STREAM &&
         (protocol == 0 || protocol == IPPROTO_TCP);
}

// Would the option make the kernel hold bytes back?
bool holds_back(int level, int option, const void* value, socklen_t bytes) {
  if (level != IPPROTO_TCP || bytes < sizeof(int)) return false;
  const int number = *static_cast<const int*>(value);
  return (option == TCP_NODELAY && number == 0) || (option == TCP_CORK && number != 0);
}

bool sets_timeout(int level, int option, const void* value, socklen_t bytes) {
  if (level != SOL_SOCKET || (option != SO_RCVTIMEO && option != SO_SNDTIMEO)) return false;
  const auto* timeout = static_cast<const timeval*>(value);
  return bytes >= sizeof(timeval) && (timeout->tv_sec != 0 || timeout->tv_usec != 0);
}

void before_blocking() {
  if (!is_member()) return;
  notice_fork();
  ring_before_blocking();
}

}  // namespace

WARPSERVE_EXPORT int socket(int domain, int type, int protocol) noexcept {
  const int fd = real().socket(domain, type, protocol);
  if (is_tcp(domain, type, protocol)) send_at_once(fd);
  return fd;
}

WARPSERVE_EXPORT int accept(int fd, sockaddr* __restrict address, socklen_t* __restrict bytes) {
  before_blocking();
  const int accepted = real().accept(fd, address, bytes);
  send_at_once(accepted);
  return accepted;
}

WARPSERVE_EXPORT int accept4(int fd, sockaddr* __restrict address, socklen_t* __restrict bytes,
                             int flags) {
  before_blocking();
  const int accepted = real().accept4(fd, address, bytes, flags);
  send_at_once(accepted);
  return accepted;
}

WARPSERVE_EXPORT int setsockopt(int fd, int level, int option, const void* value,
                                socklen_t bytes) noexcept {
  if (is_member()) {
    if (holds_back(level, option, value, bytes)) return 0;
    if (sets_timeout(level, option, value, bytes)) count(Warning::kSocketTimeout);
  }
  return real().setsockopt(fd, level, option, value, bytes);
}
