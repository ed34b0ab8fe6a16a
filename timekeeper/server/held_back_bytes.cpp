#include "timekeeper/server/held_back_bytes.hpp"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/fd.hpp"

namespace warpserve {
namespace {

// IPv4 as ::ffff:a.b.c.d, so that both ends of a connection are written alike.
struct Endpoint {
  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};

struct Connection {
  std::uint64_t inode = 0;  // 0: closed by its process
  std::uint32_t unsent_bytes = 0;
  std::uint32_t in_flight_bytes = 0;
  std::uint32_t window_bytes = 0;  // what the peer has offered
  std::uint32_t segment_bytes = 0;

  bool holds_back() const {
    const std::uint32_t room_bytes = window_bytes - std::min(window_bytes, in_flight_bytes);
    return unsent_bytes > 0 && room_bytes >= std::min(unsent_bytes, segment_bytes);
  }
};

using Connections = std::map<std::pair<Endpoint, Endpoint>, Connection>;  // by (local, remote)

// TCP states of include/net/tcp_states.h in which bytes may be left to send.
constexpr std::uint32_t kEstablished = 1U << 1;
constexpr std::uint32_t kFinWait1 = 1U << 4;
constexpr std::uint32_t kCloseWait = 1U << 8;
constexpr std::uint32_t kLastAck = 1U << 9;
constexpr std::uint32_t kClosing = 1U << 11;

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

Request dump_request(std::uint8_t family) {
  Request request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = kEstablished | kFinWait1 | kCloseWait | kLastAck | kClosing;
  return request;
}

Endpoint endpoint(std::uint8_t family, const __be32 (&words)[4], __be16 port) {
  Endpoint end;
  end.port = ntohs(port);
  if (family == AF_INET6) {
    std::memcpy(end.address.data(), words, end.address.size());
  } else {
    end.address[10] = end.address[11] = 0xff;
    std::memcpy(end.address.data() + 12, words, 4);
  }
  return end;
}

// The attribute INET_DIAG_INFO; all zero where the socket has none. Older kernels give less.
tcp_info info_of(std::span<const std::byte> attributes) {
  tcp_info info{};
  while (attributes.size() >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, attributes.data(), sizeof(attribute));
    if (attribute.rta_len < sizeof(rtattr) || attribute.rta_len > attributes.size()) break;
    const auto value = attributes.subspan(sizeof(rtattr), attribute.rta_len - sizeof(rtattr));
    if (attribute.rta_type == INET_DIAG_INFO) {
      std::memcpy(&info, value.data(), std::min(value.size(), sizeof(info)));
    }
    const std::size_t step = RTA_ALIGN(static_cast<std::size_t>(attribute.rta_len));
    attributes = attributes.subspan(std::min(step, attributes.size()));
  }
  return info;
}

void add(Connections& connections, std::span<const std::byte> payload) {
  inet_diag_msg message;
  if (payload.size() < sizeof(message)) return;
  std::memcpy(&message, payload.data(), sizeof(message));
  const tcp_info info = info_of(payload.subspan(NLMSG_ALIGN(sizeof(message))));
  Connection connection;
  connection.inode = message.idiag_inode;
  connection.unsent_bytes = info.tcpi_notsent_bytes;
  // The write queue counts what has been sent but not acknowledged, too.
  connection.in_flight_bytes =
      message.idiag_wqueue - std::min(message.idiag_wqueue, info.tcpi_notsent_bytes);
  connection.window_bytes = info.tcpi_snd_wnd;
  connection.segment_bytes = info.tcpi_snd_mss;
  const auto& id = message.id;
  connections[{endpoint(message.idiag_family, id.idiag_src, id.idiag_sport),
               endpoint(message.idiag_family, id.idiag_dst, id.idiag_dport)}] = connection;
}

// Takes one datagram of netlink messages. False after the last message of the dump.
bool take(Connections& connections, std::span<const std::byte> datagram) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, datagram.data(), sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > datagram.size()) break;
    if (header.nlmsg_type == NLMSG_DONE) return false;
    const auto payload = datagram.subspan(NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
    if (header.nlmsg_type == NLMSG_ERROR) {
      nlmsgerr error{};
      std::memcpy(&error, payload.data(), std::min(payload.size(), sizeof(error)));
      errno = -error.error;
      throw os_error("the kernel refuses to list TCP sockets (sock_diag)");
    }
    add(connections, payload);
    const std::size_t step = NLMSG_ALIGN(header.nlmsg_len);
    datagram = datagram.subspan(std::min(step, datagram.size()));
  }
  return true;
}

void dump(Connections& connections, std::uint8_t family) {
  const Fd socket_fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket_fd.valid()) throw os_error("cannot open a sock_diag socket");
  const Request request = dump_request(family);
  if (send(socket_fd.get(), &request, sizeof(request), 0) < 0) {
    throw os_error("cannot ask for TCP sockets (sock_diag)");
  }
  std::vector<std::byte> buffer(65'536);
  for (bool more = true; more;) {
    const ssize_t count = recv(socket_fd.get(), buffer.data(), buffer.size(), 0);
    if (count <= 0) throw os_error("cannot read the list of TCP sockets (sock_diag)");
    more = take(connections, std::span(buffer).first(static_cast<std::size_t>(count)));
  }
}

std::string text_of(const Endpoint& end) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, end.address.data(), text.data(), text.size());
  return "[" + std::string(text.data()) + "]:" + std::to_string(end.port);
}

}  // namespace

std::vector<std::string> held_back_bytes(const std::set<std::uint64_t>& inodes) {
  Connections connections;
  dump(connections, AF_INET);
  dump(connections, AF_INET6);
  std::vector<std::string> texts;
  for (const auto& [ends, connection] : connections) {
    if (!connection.holds_back()) continue;
    const auto peer = connections.find({ends.second, ends.first});
    if (peer == connections.end()) continue;  // on another host
    if (!inodes.contains(connection.inode) && !inodes.contains(peer->second.inode)) continue;
    texts.push_back("the kernel holds back " + std::to_string(connection.unsent_bytes) +
                    " bytes from " + text_of(ends.first) + " to " + text_of(ends.second) +
                    " (Nagle or TCP_CORK)");
  }
  return texts;
}

}  // namespace warpserve
