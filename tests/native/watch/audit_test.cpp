// The audit finds each sort of violation, planted here, and none where there is none.
#include "timekeeper/server/audit.hpp"

#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/native/check.hpp"
#include "tests/native/watch/session.hpp"

using namespace std::chrono_literals;
using scene::as_timekeeper;
using warpserve::audit;
using warpserve::ProcessWatch;

namespace {

bool finds(const std::string& text, std::vector<pid_t> roots = {}) {
  roots.push_back(getpid());
  // A violation that comes and goes shows in most audits, but need not in each.
  for (int i = 0; i < 200; ++i) {
    const auto violations = audit(roots);
    if (std::ranges::any_of(violations, [&](const std::string& violation) {
          return violation.find(text) != std::string::npos;
        })) {
      return true;
    }
  }
  return false;
}

// The kernel's own threads may run for others' sake.
bool finds_nothing() {
  std::vector<std::string> violations;
  for (int i = 0; i < 200; ++i) {
    violations = audit({getpid()});
    if (violations.empty()) return true;
  }
  for (const std::string& violation : violations) check::fail(__FILE__, __LINE__, violation);
  return false;
}

void settle() {
  ProcessWatch watch(getpid());
  REQUIRE(scene::settles(watch));
}

struct TcpPair {
  warpserve::Fd sender;
  warpserve::Fd receiver;
};

template <class Address>
TcpPair connect_on_loopback(Address address) {
  auto* any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  const warpserve::Fd listener(socket(any->sa_family, SOCK_STREAM, 0));
  REQUIRE(bind(listener.get(), any, size) == 0);
  REQUIRE(listen(listener.get(), 1) == 0);
  REQUIRE(getsockname(listener.get(), any, &size) == 0);
  TcpPair pair{.sender = warpserve::Fd(socket(any->sa_family, SOCK_STREAM, 0)), .receiver = {}};
  REQUIRE(connect(pair.sender.get(), any, size) == 0);
  pair.receiver = warpserve::Fd(accept(listener.get(), nullptr, nullptr));
  return pair;
}

TcpPair connect_on_ipv4() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect_on_loopback(address);
}

TcpPair connect_on_ipv6() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return connect_on_loopback(address);
}

void corks_bytes(TcpPair (*make_pair)()) {
  as_timekeeper([&] {
    const scene::Pipe filled;
    scene::start([&] {
      const TcpPair pair = make_pair();
      const int on = 1;
      setsockopt(pair.sender.get(), IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
      // The kernel lets go of corked bytes after 200 ms.
      for (;;) {
        if (send(pair.sender.get(), "held", 4, 0) != 4) abort();
        filled.signal();
        scene::pause_host(100ms);
      }
    });
    filled.await();
    CHECK(finds("holds back"));
  });
}

}  // namespace

TEST(audit_of_sleepers_finds_nothing) {
  as_timekeeper([] {
    const TcpPair pair = connect_on_ipv4();
    for (int i = 0; i < 3; ++i) scene::start(scene::sleep_for_ever);
    scene::start([] {
      if (vfork() == 0) {
        for (;;) pause();
      }
    });
    settle();
    CHECK(finds_nothing());
  });
}

TEST(audit_finds_a_running_thread) {
  as_timekeeper([] {
    scene::start([] {
      std::thread(scene::spin).detach();
      scene::sleep_for_ever();
    });
    CHECK(finds("is in state R"));
  });
}

TEST(audit_finds_a_running_orphan) {
  as_timekeeper([] {
    const pid_t parent = scene::start([] {
      if (fork() == 0) scene::spin();
    });
    waitpid(parent, nullptr, 0);
    CHECK(finds("is in state R"));
  });
}

TEST(audit_finds_a_stopped_process) {
  as_timekeeper([] {
    const pid_t pid = scene::start(scene::sleep_for_ever);
    kill(pid, SIGSTOP);
    waitpid(pid, nullptr, WUNTRACED);
    CHECK(finds("is in state T"));
  });
}

TEST(audit_finds_who_ran_and_sleeps_again) {
  as_timekeeper([] {
    scene::start([] {
      for (;;) scene::pause_host(50us);
    });
    CHECK(finds("ran between two passes"));
  });
}

TEST(audit_finds_threads_that_come_and_go) {
  as_timekeeper([] {
    scene::start([] {
      for (;;) std::thread([] {}).join();
    });
    CHECK(finds("appeared between two passes"));
    CHECK(finds("ended between two passes"));
  });
}

TEST(audit_finds_a_root_from_elsewhere) {
  const pid_t stranger = scene::start(scene::spin);
  as_timekeeper([&] {
    CHECK(finds_nothing());
    CHECK(finds("is in state R", {stranger}));
  });
  scene::end(stranger);
}

TEST(audit_finds_corked_bytes_on_ipv4) {
  corks_bytes(connect_on_ipv4);
}

TEST(audit_finds_corked_bytes_on_ipv6) {
  corks_bytes(connect_on_ipv6);
}

TEST(audit_allows_a_reader_without_room) {
  as_timekeeper([] {
    scene::start([] {
      const TcpPair pair = connect_on_ipv4();
      const std::string block(65'536, 'x');
      while (send(pair.sender.get(), block.data(), block.size(), 0) > 0) {
      }
    });
    settle();
    CHECK(finds_nothing());
  });
}

TEST(audit_finds_an_io_uring) {
  as_timekeeper([] {
    const scene::Shared<std::atomic<int>> made;
    scene::start([&] {
      io_uring_params parameters{};
      made->store(syscall(SYS_io_uring_setup, 4, &parameters) >= 0 ? 1 : -1);
      scene::sleep_for_ever();
    });
    settle();
    if (made->load() < 0) return;  // the kernel allows none: there is nothing to find
    CHECK(finds("has an io_uring"));
  });
}
