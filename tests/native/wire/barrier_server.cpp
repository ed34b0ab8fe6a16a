// barrier_server FOLDER [KEY=VALUE...]: the test server as a process, for tests in Python. It says
// READY, then a line for each event, and ends when its standard input does.
#include "tests/native/wire/barrier_server.hpp"

#include <iostream>
#include <map>
#include <string>

#include "timekeeper/server/session_lock.hpp"

namespace warpserve {
namespace {

GatewayOptions options_from(int argc, char** argv) {
  GatewayOptions options;
  options.session_folder = argv[1];
  options.token.fill(7);
  options.session.fill(3);
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    const std::string key = argument.substr(0, equals);
    const std::string value = argument.substr(equals + 1);
    if (key == "listen") {
      options.listen = value;
    } else if (key == "mode") {
      options.mode = value == "live" ? ClockMode::kLive : ClockMode::kExact;
    } else if (key == "silence_ms") {
      options.silence_limit = HostDuration::from_ms(std::stoll(value));
    } else if (key == "heartbeat_ms") {
      options.heartbeat_interval = HostDuration::from_ms(std::stoll(value));
    } else if (key == "members") {
      options.limits.members = std::stoul(value);
    } else if (key == "actors") {
      options.limits.actors_per_member = std::stoul(value);
    } else if (key == "holds") {
      options.limits.holds_per_member = std::stoul(value);
    } else if (key == "queued") {
      options.limits.queued_per_member = std::stoul(value);
    } else {
      throw std::invalid_argument("unknown option " + key);
    }
  }
  return options;
}

int run(int argc, char** argv) {
  const GatewayOptions options = options_from(argc, argv);
  const SessionLock lock(options.session_folder);
  const BarrierServer server(options,
                             [](const std::string& line) { std::cout << line << std::endl; });
  std::cout << "READY" << std::endl;
  std::cin.get();
  return 0;
}

}  // namespace
}  // namespace warpserve

int main(int argc, char** argv) {
  try {
    return warpserve::run(argc, argv);
  } catch (const std::exception& error) {
    std::cout << "ERROR " << error.what() << std::endl;
    return 2;
  }
}
