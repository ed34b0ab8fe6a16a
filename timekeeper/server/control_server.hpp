// The control socket: handshakes, wake-up descriptors, spawning and reaping, status, the end.
// One thread of its own; it hands what matters to the advance thread as events.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "timekeeper/server/events.hpp"
#include "timekeeper/server/fd.hpp"
#include "timekeeper/server/shared_memory.hpp"
#include "timekeeper/server/wake_descriptors.hpp"
#include "timekeeper/shared/contract.hpp"

namespace warpserve {

using Token = std::array<unsigned char, kTokenBytes>;

class ControlServer {
 public:
  // Listens at once. Throws std::system_error.
  ControlServer(const std::string& folder, const Token& token, const SharedMemory& memory,
                WakeDescriptors& wake_descriptors, EventQueue& events,
                rlimit member_descriptor_limit);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  void start();
  // For when nobody drains the events any more. No requests are served afterwards.
  void stop();

 private:
  struct Connection {
    Fd socket;
    pid_t pid = 0;  // from SO_PEERCRED
    bool authenticated = false;
    bool is_member = false;
    bool is_launcher = false;
    std::vector<pid_t> spawned;
  };
  struct Packet {
    ControlMessage message;
    std::vector<Fd> descriptors;
  };
  struct Watched {
    Fd pidfd;
    int member_connection = -1;  // the connection that it said hello on last
  };

  void run();
  void accept_one();
  void serve(int socket);
  void handle(Connection& connection, Packet packet);
  void hello(Connection& connection);
  void take_wake_descriptor(Connection& connection, Packet& packet);
  void spawn_member(Connection& connection, Packet& packet);
  void answer_status(Connection& connection);
  void connection_ended(int socket);
  void process_died(pid_t pid, int signal_number);
  void take_signals();
  void reap();
  void watch(pid_t pid);
  bool token_matches(const ControlMessage& message) const;
  void end_if_no_launcher_came();

  static std::optional<Packet> receive(int socket);
  static void reply(const Connection& connection, ControlMessage message,
                    const std::vector<int>& descriptors = {});
  static void refuse(const Connection& connection, const std::string& why);

  const Token token_;
  const SharedMemory& memory_;
  WakeDescriptors& wake_descriptors_;
  EventQueue& events_;
  const rlimit member_descriptor_limit_;
  Fd listener_;
  Fd signals_;
  Fd stop_event_;
  HostTime launcher_deadline_;
  bool launcher_came_ = false;
  pid_t ends_with_ = 0;                    // the process whose end is the session's; 0: none
  std::map<int, Connection> connections_;  // by descriptor
  std::map<pid_t, Watched> watched_;
  std::thread thread_;
};

}  // namespace warpserve
