#include "cuda_shim/nccl/endpoint.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>

#include "cuda_shim/memory/process.hpp"
#include "cuda_shim/nccl/types.hpp"

namespace warpserve::gpu::nccl {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw NcclFailure(Outcome::kSystemError, what + ": " + std::strerror(errno));
}

// A thread of ours must run no signal handler of the program's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

FileDescriptor open_descriptor(std::uint32_t pid, std::uint64_t start, int fd, int flags) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  FileDescriptor file(open(path.c_str(), flags | O_CLOEXEC));
  return process_start(pid) == start ? std::move(file) : FileDescriptor();
}

Peer::Peer(const ProcessAddress& address)
    : address_(address),
      // For reading as well: a pipe that nobody has open for reading answers a write with SIGPIPE.
      ring_(open_descriptor(address.pid, address.start, address.ring_fd, O_RDWR | O_NONBLOCK)),
      process_(static_cast<int>(syscall(SYS_pidfd_open, address.pid, 0))) {
  const FileDescriptor staging =
      open_descriptor(address.pid, address.start, address.staging_fd, O_RDONLY);
  if (!ring_.valid() || !process_.valid() || !staging.valid()) {
    alive_ = false;
    return;
  }
  staging_ = Mapping(staging.get(), kStagingBytes, false);
}

void Peer::ring() const {
  // A full pipe has been rung. Nobody empties that of a dead process, whose end the pidfd tells.
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(ring_.get(), &byte, 1);
}

Endpoint& Endpoint::get() {
  // Never destroyed: its thread may run while the process exits.
  static Endpoint& endpoint = *std::unique_ptr<Endpoint>(new Endpoint).release();
  return endpoint;
}

Endpoint::Endpoint() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail("a pipe for NCCL can't be made");
  ring_ = FileDescriptor(ends[0]);
  ringing_ = FileDescriptor(ends[1]);
  const auto pid = static_cast<std::uint32_t>(getpid());
  address_ = {.pid = pid,
              .ring_fd = ringing_.get(),
              .staging_fd = staging_.fd(),
              .start = process_start(pid).value_or(0)};
  const SignalsBlocked blocked;
  std::thread([this] { run(); }).detach();
}

std::shared_ptr<Peer> Endpoint::peer(const ProcessAddress& address) {
  std::shared_ptr<Peer> peer;
  {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Peer>& known = peers_[address.pid];
    peer = known.lock();
    if (peer != nullptr && peer->address().start == address.start) return peer;
    peer = std::make_shared<Peer>(address);
    known = peer;
  }
  // So that the thread watches it.
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(ringing_.get(), &byte, 1);
  return peer;
}

void Endpoint::add(const std::weak_ptr<Listener>& listener) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back(listener);
}

void Endpoint::run() {
  pthread_setname_np(pthread_self(), "warpserve-nccl");
  while (true) {
    wait(living_peers());
    std::array<char, 4096> rings;
    while (read(ring_.get(), rings.data(), rings.size()) == std::ssize(rings)) {
    }
    for (const auto& listener : living_listeners()) listener->on_ring();
  }
}

void Endpoint::wait(const std::vector<std::shared_ptr<Peer>>& peers) const {
  std::vector<pollfd> descriptors = {{.fd = ring_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& peer : peers) {
    descriptors.push_back({.fd = peer->process_.get(), .events = POLLIN, .revents = 0});
  }
  while (poll(descriptors.data(), descriptors.size(), -1) < 0 && errno == EINTR) {
  }
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (descriptors[i + 1].revents != 0) peers[i]->alive_ = false;
  }
}

std::vector<std::shared_ptr<Peer>> Endpoint::living_peers() {
  const std::lock_guard lock(mutex_);
  std::erase_if(peers_, [](const auto& peer) { return peer.second.expired(); });
  std::vector<std::shared_ptr<Peer>> living;
  for (const auto& [pid, known] : peers_) {
    auto peer = known.lock();
    if (peer != nullptr && peer->alive()) living.push_back(std::move(peer));
  }
  return living;
}

std::vector<std::shared_ptr<Listener>> Endpoint::living_listeners() {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [](const auto& listener) { return listener.expired(); });
  std::vector<std::shared_ptr<Listener>> living;
  for (const auto& known : listeners_) {
    if (auto listener = known.lock()) living.push_back(std::move(listener));
  }
  return living;
}

}  // namespace warpserve::gpu::nccl
