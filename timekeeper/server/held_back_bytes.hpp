// TCP bytes that the kernel keeps although their reader has room: nobody runs, and yet they will
// arrive when a timer of the host says so (Nagle's algorithm with a delayed acknowledgement,
// TCP_CORK).
//
// Source: sock_diag(7), inet_diag of this network namespace, IPv4 and IPv6.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace warpserve {

// One text for each connection between two local sockets, at least one of them in `inodes` (the
// numbers in "socket:[N]" below /proc/P/fd), that holds back bytes. Throws std::system_error where
// the kernel does not answer.
std::vector<std::string> held_back_bytes(const std::set<std::uint64_t>& inodes);

}  // namespace warpserve
