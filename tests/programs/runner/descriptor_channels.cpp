#include "tests/programs/runner/descriptor_channels.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/programs/runner/descriptors.hpp"
#include "tests/programs/runner/fail.hpp"

namespace programs {

namespace {

class DescriptorChannel : public Channel {
 public:
  DescriptorChannel(Descriptor reader, Descriptor writer)
      : reader_(std::move(reader)), writer_(std::move(writer)) {}

  void send(std::int64_t payload) override {
    expect(write(writer_.get(), &payload, sizeof payload) == sizeof payload, "write of a message");
  }

  std::int64_t receive(const std::string& means) override {
    expect(wait_readable(means, reader_.get(), std::nullopt), "a wait without a timeout");
    return take();
  }

  std::optional<std::int64_t> receive_for(const std::string& means, std::int64_t ns) override {
    if (!wait_readable(means, reader_.get(), ns)) return std::nullopt;
    return take();
  }

 private:
  std::int64_t take() {
    std::int64_t payload = 0;
    expect(read(reader_.get(), &payload, sizeof payload) == sizeof payload, "read of a message");
    return payload;
  }

  Descriptor reader_;
  Descriptor writer_;
};

std::unique_ptr<Channel> connected(const Descriptor& listener, int family) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  must(listen(listener.get(), 1), "listen");
  must(getsockname(listener.get(), generic, &bytes), "getsockname");
  Descriptor writer(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  must(connect(writer.get(), generic, bytes), "connect");
  Descriptor reader(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return std::make_unique<DescriptorChannel>(std::move(reader), std::move(writer));
}

}  // namespace

// No TCP_NODELAY: the session has to see to it that no message stays behind in the kernel.
std::unique_ptr<Channel> make_tcp_channel() {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any_port{};
  any_port.sin_family = AF_INET;
  any_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  must(bind(listener.get(), reinterpret_cast<sockaddr*>(&any_port), sizeof any_port), "bind");
  return connected(listener, AF_INET);
}

std::unique_ptr<Channel> make_unix_channel() {
  const Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un any_name{};
  any_name.sun_family = AF_UNIX;
  // The family alone: the kernel chooses an abstract name.
  must(bind(listener.get(), reinterpret_cast<sockaddr*>(&any_name), sizeof any_name.sun_family),
       "bind");
  return connected(listener, AF_UNIX);
}

std::unique_ptr<Channel> make_pipe_channel() {
  int fds[2];
  must(pipe2(fds, O_CLOEXEC), "pipe2");
  return std::make_unique<DescriptorChannel>(Descriptor(fds[0]), Descriptor(fds[1]));
}

std::unique_ptr<Channel> make_socketpair_channel() {
  int fds[2];
  must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), "socketpair");
  return std::make_unique<DescriptorChannel>(Descriptor(fds[0]), Descriptor(fds[1]));
}

}  // namespace programs
