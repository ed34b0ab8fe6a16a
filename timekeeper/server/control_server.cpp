#include "timekeeper/server/control_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>

#include "timekeeper/server/constant_time.hpp"
#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/host_clock.hpp"
#include "timekeeper/server/procfs.hpp"
#include "timekeeper/server/supervisor.hpp"

namespace warpserve {

namespace {

constexpr std::size_t kMaxDescriptors = 4;
constexpr std::size_t kMaxConnections = 16'384;
// A Timekeeper whose launcher dies between starting it and connecting must not stay behind.
constexpr auto kLauncherGrace = HostDuration::from_ms(30'000);

ControlMessage message_of(ControlType type) {
  ControlMessage message{};
  message.magic = kControlMagic;
  message.contract_version = kContractVersion;
  message.type = type;
  return message;
}

void set_text(ControlMessage& message, const std::string& text) {
  const std::size_t bytes = text.copy(message.text, sizeof message.text - 1);
  message.text[bytes] = '\0';
}

// Whoever finds the path can connect: the socket gets that name once it listens.
Fd listen_at(const std::string& path) {
  const std::string deaf = path + "~";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (deaf.size() >= sizeof address.sun_path) {
    throw UsageError("the session folder's path is too long for a socket: " + path);
  }
  deaf.copy(address.sun_path, deaf.size());
  Fd socket_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd.valid()) throw os_error("socket");
  if (bind(socket_fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw os_error("binding " + path);
  }
  if (listen(socket_fd.get(), SOMAXCONN) != 0) throw os_error("listening at " + path);
  if (renameat2(AT_FDCWD, deaf.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    throw os_error("binding " + path);
  }
  return socket_fd;
}

// main() has blocked both in all threads.
Fd signal_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  Fd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) throw os_error("signalfd");
  return fd;
}

pid_t peer_pid(int socket_fd) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return 0;
  return credentials.uid == geteuid() ? credentials.pid : 0;
}

// Does the process have our board mapped? Then it is the program that said hello before.
bool has_board_mapped(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:warpserve-board") != std::string::npos) return true;
  }
  return false;
}

int signal_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
}

// include/uapi/linux/pidfd.h, from Linux 6.15 on.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup_id;
  std::uint32_t ids[11];
  std::int32_t exit_code;
};
constexpr std::uint64_t kPidfdInfoExit = 1 << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xff, 11, PidfdInfo);

// What killed a process that is not our child; 0 where nothing did, or it cannot be told: once its
// parent has reaped it, older kernels say nothing.
int killing_signal(pid_t pid, int pidfd) {
  if (const auto text = read_proc_file(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat")) {
    // The wait status is the last field of stat (fs/proc/array.c).
    return signal_of(atoi(text->c_str() + text->find_last_of(' ') + 1));
  }
  PidfdInfo info{.mask = kPidfdInfoExit};
  const bool told = ioctl(pidfd, kPidfdGetInfo, &info) == 0 && (info.mask & kPidfdInfoExit) != 0;
  return told ? signal_of(info.exit_code) : 0;
}

// A write to anything else, a full pipe say, could block the advance thread.
bool is_eventfd(const Fd& fd) {
  std::error_code error;
  const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
  return std::filesystem::read_symlink(link, error) == "anon_inode:[eventfd]";
}

Fd memfd_with(const std::string& text) {
  Fd fd(memfd_create("warpserve-status", MFD_CLOEXEC));
  if (!fd.valid() || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw os_error("writing the status");
  return fd;
}

}  // namespace

ControlServer::ControlServer(const std::string& folder, const Token& token,
                             const SharedMemory& memory, WakeDescriptors& wake_descriptors,
                             EventQueue& events, rlimit member_descriptor_limit)
    : token_(token),
      memory_(memory),
      wake_descriptors_(wake_descriptors),
      events_(events),
      member_descriptor_limit_(member_descriptor_limit),
      listener_(listen_at(folder + "/" + kControlSocket)),
      signals_(signal_descriptor()),
      stop_event_(eventfd(0, EFD_CLOEXEC)),
      launcher_deadline_(host_now() + kLauncherGrace) {
  if (!stop_event_.valid()) throw os_error("eventfd");
}

ControlServer::~ControlServer() {
  stop();
}

void ControlServer::start() {
  thread_ = std::thread([this] {
    try {
      run();
    } catch (const std::exception& error) {
      fprintf(stderr, "warpserve: the control socket failed: %s\n", error.what());
      events_.push(EndAsked{"the control socket failed"});
    }
  });
}

void ControlServer::stop() {
  if (!thread_.joinable()) return;
  events_.close();  // the thread may be waiting for an answer that nobody gives any more
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = write(stop_event_.get(), &one, sizeof one);
  thread_.join();
}

void ControlServer::run() {
  pthread_setname_np(pthread_self(), "control");
  events_.push(ServerStarted{gettid()});
  while (true) {
    std::vector<pollfd> polled = {
        {stop_event_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::vector<pid_t> pids;
    for (const auto& [pid, watched] : watched_) {
      polled.push_back({watched.pidfd.get(), POLLIN, 0});
      pids.push_back(pid);
    }
    const std::size_t first_connection = polled.size();
    for (const auto& [fd, connection] : connections_) polled.push_back({fd, POLLIN, 0});

    const int timeout_ms = launcher_came_ ? -1 : 1'000;
    if (poll(polled.data(), polled.size(), timeout_ms) < 0 && errno != EINTR) {
      throw os_error("poll of the control socket");
    }
    if (polled[0].revents != 0) return;
    if (polled[1].revents != 0) take_signals();
    for (std::size_t i = 0; i < pids.size(); ++i) {
      if (polled[3 + i].revents != 0)
        process_died(pids[i], killing_signal(pids[i], polled[3 + i].fd));
    }
    for (std::size_t i = first_connection; i < polled.size(); ++i) {
      if (polled[i].revents != 0) serve(polled[i].fd);
    }
    if (polled[2].revents != 0) accept_one();
    if (!launcher_came_) end_if_no_launcher_came();
  }
}

void ControlServer::end_if_no_launcher_came() {
  if (host_now() < launcher_deadline_) return;
  launcher_came_ = true;
  events_.push(EndAsked{"no launcher connected"});
}

void ControlServer::accept_one() {
  Fd socket_fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket_fd.valid()) {
    // Out of descriptors: whoever waits to be accepted goes on waiting; do not spin meanwhile.
    if (errno == EMFILE || errno == ENFILE) usleep(10'000);
    return;
  }
  if (connections_.size() >= kMaxConnections) return;
  const int fd = socket_fd.get();
  const pid_t pid = peer_pid(fd);
  if (pid == 0) return;
  connections_[fd] = Connection{.socket = std::move(socket_fd), .pid = pid, .spawned = {}};
}

std::optional<ControlServer::Packet> ControlServer::receive(int socket_fd) {
  Packet packet{};
  iovec part{&packet.message, sizeof packet.message};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = ancillary;
  header.msg_controllen = sizeof ancillary;
  const ssize_t bytes = recvmsg(socket_fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); bytes >= 0 && c != nullptr;
       c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      packet.descriptors.emplace_back(fd);
    }
  }
  // An empty, short or over-long packet ends the connection: nobody of ours sends one.
  if (bytes != sizeof packet.message || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return std::nullopt;
  }
  return packet;
}

void ControlServer::reply(const Connection& connection, ControlMessage message,
                          const std::vector<int>& descriptors) {
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = ancillary;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    memcpy(CMSG_DATA(c), descriptors.data(), sizeof(int) * descriptors.size());
  }
  // A peer that does not read loses the reply; it never blocks the others.
  sendmsg(connection.socket.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ControlServer::refuse(const Connection& connection, const std::string& why) {
  ControlMessage message = message_of(ControlType::kRefused);
  set_text(message, why);
  reply(connection, message);
}

void ControlServer::serve(int socket_fd) {
  const auto found = connections_.find(socket_fd);
  if (found == connections_.end()) return;
  std::optional<Packet> packet = receive(socket_fd);
  if (!packet) {
    connection_ended(socket_fd);
    return;
  }
  try {
    handle(found->second, std::move(*packet));
  } catch (const std::future_error&) {
    refuse(found->second, "the session has ended");
  } catch (const std::exception& error) {
    refuse(found->second, error.what());
  }
}

bool ControlServer::token_matches(const ControlMessage& message) const {
  return equal_in_constant_time(std::as_bytes(std::span(message.token)),
                                std::as_bytes(std::span(token_)));
}

void ControlServer::handle(Connection& connection, Packet packet) {
  const ControlMessage& message = packet.message;
  if (message.magic != kControlMagic) return refuse(connection, "not a warpserve message");
  if (message.contract_version != kContractVersion) {
    return refuse(connection, "this Timekeeper speaks contract version " +
                                  std::to_string(kContractVersion) + ", the client speaks " +
                                  std::to_string(message.contract_version));
  }
  if (!connection.authenticated && !token_matches(message)) {
    return refuse(connection, "wrong token for this session");
  }
  connection.authenticated = true;
  switch (message.type) {
    case ControlType::kHello:
      return hello(connection);
    case ControlType::kWakeFd:
      return take_wake_descriptor(connection, packet);
    case ControlType::kSpawn:
      return spawn_member(connection, packet);
    case ControlType::kStatus:
      return answer_status(connection);
    case ControlType::kEnd:
      return events_.push(EndAsked{"asked to end"});
    case ControlType::kEnding:
      if (!connection.is_launcher) return refuse(connection, "only a launcher ends members");
      events_.push(EndingTold{});
      return reply(connection, message_of(ControlType::kDone));
    case ControlType::kWelcome:
    case ControlType::kRefused:
    case ControlType::kDone:
    case ControlType::kSpawned:
    case ControlType::kExited:
    case ControlType::kStatusReply:
      break;
  }
  refuse(connection, "a client does not send message type " +
                         std::to_string(static_cast<std::uint32_t>(message.type)));
}

void ControlServer::hello(Connection& connection) {
  watch(connection.pid);
  const auto watched = watched_.find(connection.pid);
  if (watched == watched_.end()) return refuse(connection, "the process has died");
  const bool was_member = watched->second.member_connection >= 0;
  if (was_member && !has_board_mapped(connection.pid)) {
    events_.push(ProcessLeft{connection.pid});
  }
  watched->second.member_connection = connection.socket.get();
  connection.is_member = true;

  std::promise<void> known;
  std::future<void> is_known = known.get_future();
  events_.push(ProcessJoined{connection.pid, std::move(known)});
  is_known.get();
  reply(connection, message_of(ControlType::kWelcome), {memory_.clock_fd(), memory_.board_fd()});
}

void ControlServer::take_wake_descriptor(Connection& connection, Packet& packet) {
  const std::uint32_t slot = packet.message.value;
  if (packet.descriptors.size() != 1) return refuse(connection, "one eventfd is needed");
  if (slot >= memory_.slot_capacity() ||
      memory_.board().slots()[slot].pid.load() != static_cast<std::uint32_t>(connection.pid)) {
    return refuse(connection, "slot " + std::to_string(slot) + " is not this process's");
  }
  if (!is_eventfd(packet.descriptors[0])) return refuse(connection, "an eventfd is needed");
  wake_descriptors_.put(slot, std::move(packet.descriptors[0]));
  reply(connection, message_of(ControlType::kDone));
}

void ControlServer::spawn_member(Connection& connection, Packet& packet) {
  connection.is_launcher = true;
  launcher_came_ = true;
  if (packet.descriptors.size() != 4) return refuse(connection, "four descriptors are needed");
  const Fd memfd = std::move(packet.descriptors[0]);
  const SpawnRequest request = read_spawn_request(
      memfd.get(), {std::move(packet.descriptors[1]), std::move(packet.descriptors[2]),
                    std::move(packet.descriptors[3])});
  const pid_t pid = spawn(request, member_descriptor_limit_);
  connection.spawned.push_back(pid);
  if (packet.message.value == 1) ends_with_ = pid;
  watch(pid);
  ControlMessage message = message_of(ControlType::kSpawned);
  message.value = static_cast<std::uint32_t>(pid);
  reply(connection, message);
}

void ControlServer::answer_status(Connection& connection) {
  std::promise<std::string> answer;
  std::future<std::string> json = answer.get_future();
  events_.push(StateAsked{std::move(answer)});
  const Fd memfd = memfd_with(json.get());
  reply(connection, message_of(ControlType::kStatusReply), {memfd.get()});
}

void ControlServer::watch(pid_t pid) {
  if (watched_.contains(pid)) return;
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd.valid()) watched_[pid] = Watched{.pidfd = std::move(pidfd)};
}

void ControlServer::connection_ended(int socket_fd) {
  const auto found = connections_.find(socket_fd);
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  if (connection.is_launcher) events_.push(EndAsked{"the launcher is gone"});
  const auto watched = watched_.find(connection.pid);
  if (!connection.is_member || watched == watched_.end() ||
      watched->second.member_connection != socket_fd) {
    return;
  }
  // Dead (its pidfd tells), another program now, or a member that closed a descriptor it does not
  // know: such a one goes on, and connects again when it needs to.
  if (has_board_mapped(connection.pid)) return;
  watched->second.member_connection = -1;
  events_.push(ProcessLeft{connection.pid});
}

void ControlServer::process_died(pid_t pid, int signal_number) {
  watched_.erase(pid);
  events_.push(ProcessDied{pid, signal_number});
}

void ControlServer::take_signals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGTERM) events_.push(EndAsked{"the Timekeeper was asked to end"});
  }
  reap();
}

void ControlServer::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    // The pid may be given out again from now on.
    if (watched_.contains(pid)) process_died(pid, signal_of(status));
    if (pid == ends_with_) events_.push(EndAsked{"its command has ended"});
    for (auto& [fd, connection] : connections_) {
      if (std::erase(connection.spawned, pid) == 0) continue;
      ControlMessage message = message_of(ControlType::kExited);
      message.value = static_cast<std::uint32_t>(pid);
      message.status = status;
      reply(connection, message);
    }
  }
}

}  // namespace warpserve
