// The control socket's thread, without an advance loop behind it.
#include "timekeeper/server/control_server.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <variant>

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

constexpr SharedMemoryOptions kMemory{.mode = ClockMode::kExact,
                                      .guard = GuardKind::kSettle,
                                      .slot_capacity = 64,
                                      .spin_limit = 100,
                                      .spin_quantum_ns = 1,
                                      .realtime_epoch_ns = 0};

// A control thread, one client of it, and the test as the advance loop.
struct Scene {
  SessionFolder folder;
  SharedMemory memory{kMemory};
  WakeDescriptors wake_descriptors;
  EventQueue events{[] {}};
  ControlServer server{folder.path(), Token{}, memory, wake_descriptors, events, {}};
  Fd client;

  Scene() {
    server.start();
    client = connect_to(folder);
    await_event();  // that it has started
    events.drain();
  }

  void await_event() const {
    while (events.empty()) std::this_thread::yield();
  }

  void ask(ControlType type) const {
    ControlMessage message{};
    message.magic = kControlMagic;
    message.contract_version = kContractVersion;
    message.type = type;
    CHECK_EQ(send(client.get(), &message, sizeof message, 0), ssize_t{sizeof message});
  }

  void expect_refusal(const std::string& why) const {
    ControlMessage answer{};
    CHECK_EQ(recv(client.get(), &answer, sizeof answer, 0), ssize_t{sizeof answer});
    CHECK_EQ(answer.type, ControlType::kRefused);
    CHECK_EQ(std::string(answer.text), why);
  }
};

TEST(who_finds_the_socket_can_connect) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    const SessionFolder folder;
    Fd client;
    std::thread finder([&] {
      while (!std::filesystem::exists(folder.path() + "/" + kControlSocket)) {
      }
      client = connect_to(folder);
    });
    SharedMemory memory{kMemory};
    WakeDescriptors wake_descriptors;
    EventQueue events{[] {}};
    const ControlServer server{folder.path(), Token{}, memory, wake_descriptors, events, {}};
    finder.join();
    CHECK(client.valid());
  }
}

TEST(a_session_has_one_server) {
  Scene scene;
  int refused_with = 0;
  try {
    const ControlServer second{scene.folder.path(),    Token{},      scene.memory,
                               scene.wake_descriptors, scene.events, {}};
  } catch (const std::system_error& error) {
    refused_with = error.code().value();
  }
  CHECK_EQ(refused_with, EEXIST);
}

TEST(who_asks_while_the_session_ends_is_refused) {
  for (const ControlType type : {ControlType::kHello, ControlType::kStatus}) {
    Scene scene;
    scene.ask(type);
    scene.await_event();
    scene.server.stop();
    scene.expect_refusal("the session has ended");
  }
}

TEST(a_request_that_fails_is_refused) {
  Scene scene;
  scene.ask(ControlType::kStatus);
  scene.await_event();
  rlimit former{};
  getrlimit(RLIMIT_NOFILE, &former);
  const auto next_free = static_cast<rlim_t>(Fd(dup(scene.client.get())).get());
  const rlimit none_left{.rlim_cur = next_free, .rlim_max = former.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none_left);
  for (Event& event : scene.events.drain()) std::get<StateAsked>(event).answer.set_value("{}");
  scene.expect_refusal("writing the status: Too many open files");
  setrlimit(RLIMIT_NOFILE, &former);
}

}  // namespace
}  // namespace warpserve
