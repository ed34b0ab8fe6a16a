// The control socket's thread, without an advance loop behind it.
#include "timekeeper/server/control_server.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/native/check.hpp"

namespace warpserve {
namespace {

class SessionFolder {
 public:
  SessionFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "control-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~SessionFolder() { std::filesystem::remove_all(path_); }
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Fd connect_to(const SessionFolder& folder) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder.path() + "/" + kControlSocket;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fd = Fd();
  return fd;
}

// The answer to a message of `type` that the control thread has taken when it is told to stop.
ControlMessage answer_after_the_end(ControlType type) {
  const SessionFolder folder;
  const Token token{};
  const SharedMemory memory({.mode = ClockMode::kExact,
                             .guard = GuardKind::kSettle,
                             .slot_capacity = 64,
                             .spin_limit = 100,
                             .spin_quantum_ns = 1,
                             .realtime_epoch_ns = 0});
  WakeDescriptors wake_descriptors;
  EventQueue events([] {});
  ControlServer server(folder.path(), token, memory, wake_descriptors, events, {});
  server.start();
  const Fd client = connect_to(folder);
  while (events.drain().empty()) std::this_thread::yield();  // that it has started

  ControlMessage message{};
  message.magic = kControlMagic;
  message.contract_version = kContractVersion;
  message.type = type;
  if (send(client.get(), &message, sizeof message, 0) != sizeof message) return {};
  while (events.empty()) std::this_thread::yield();
  server.stop();
  ControlMessage answer{};
  return recv(client.get(), &answer, sizeof answer, 0) == sizeof answer ? answer : ControlMessage{};
}

TEST(who_asks_while_the_session_ends_is_refused) {
  for (const ControlType type : {ControlType::kHello, ControlType::kStatus}) {
    const ControlMessage answer = answer_after_the_end(type);
    CHECK_EQ(answer.type, ControlType::kRefused);
    CHECK_EQ(std::string(answer.text), "the session has ended");
  }
}

}  // namespace
}  // namespace warpserve
