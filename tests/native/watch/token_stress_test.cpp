// A token travels among processes that sleep until it arrives. While it is on its way the session
// must never look settled, whatever carries it and however busy the CPUs are.
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "tests/native/check.hpp"
#include "tests/native/watch/session.hpp"

namespace {

constexpr int kCarriers = 3;
constexpr int kHopsOfAToken = 7;
constexpr int kTokens = 100;

// One place where a token can arrive.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual void put() = 0;
  virtual void take() = 0;  // sleeps until there is one
};

class PipeMailbox : public Mailbox {
 public:
  void put() override { pipe_.signal(); }
  void take() override { pipe_.await(); }

 private:
  scene::Pipe pipe_;
};

class FutexMailbox : public Mailbox {
 public:
  void put() override {
    full_->store(1);
    syscall(SYS_futex, full_.operator->(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  void take() override {
    while (full_->exchange(0) == 0) {
      syscall(SYS_futex, full_.operator->(), FUTEX_WAIT, 0, nullptr, nullptr, 0);
    }
  }

 private:
  scene::Shared<std::atomic<std::uint32_t>> full_;
};

class TcpMailbox : public Mailbox {
 public:
  TcpMailbox() {
    const warpserve::Fd listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(listener.get(), any, size) == 0);
    REQUIRE(listen(listener.get(), 1) == 0);
    REQUIRE(getsockname(listener.get(), any, &size) == 0);
    sender_ = warpserve::Fd(socket(AF_INET, SOCK_STREAM, 0));
    REQUIRE(connect(sender_.get(), any, size) == 0);
    receiver_ = warpserve::Fd(accept(listener.get(), nullptr, nullptr));
    const int on = 1;
    setsockopt(sender_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  void put() override {
    const char byte = 1;
    if (send(sender_.get(), &byte, 1, 0) != 1) abort();
  }
  void take() override {
    char byte = 0;
    if (recv(receiver_.get(), &byte, 1, 0) != 1) abort();
  }

 private:
  warpserve::Fd sender_;
  warpserve::Fd receiver_;
};

// Up to 50 us of work, or giving way to others.
void dawdle(std::minstd_rand& random) {
  const unsigned choice = static_cast<unsigned>(random() % 4);
  if (choice == 0) sched_yield();
  if (choice == 1) {
    for (volatile unsigned turns = static_cast<unsigned>(random() % 50'000); turns > 0;) {
      turns = turns - 1;
    }
  }
}

template <class Box>
void pass_tokens() {
  std::vector<pid_t> disturbers;
  for (int i = 0; i < 2; ++i) {
    disturbers.push_back(scene::start([i] {
      setpriority(PRIO_PROCESS, 0, i == 0 ? 0 : 10);
      scene::spin();
    }));
  }
  scene::as_timekeeper([] {
    const scene::Shared<std::atomic<int>> hops_left;
    std::array<std::unique_ptr<Mailbox>, kCarriers> boxes;
    for (auto& box : boxes) box = std::make_unique<Box>();
    for (int i = 0; i < kCarriers; ++i) {
      scene::start([&, i] {
        std::minstd_rand random(static_cast<unsigned>(i + 1));
        for (;;) {
          boxes[static_cast<std::size_t>(i)]->take();
          dawdle(random);
          if (--*hops_left.operator->() > 0) {
            boxes[static_cast<std::size_t>((i + 1) % kCarriers)]->put();
          }
          dawdle(random);
        }
      });
    }
    warpserve::ProcessWatch watch(getpid());
    std::minstd_rand random(0);
    for (int token = 0; token < kTokens; ++token) {
      REQUIRE(scene::settles(watch));
      REQUIRE(hops_left->load() == 0);
      hops_left->store(kHopsOfAToken);
      boxes[random() % kCarriers]->put();
      for (int look = 0; look < 200 && !watch.look().settled(); ++look) dawdle(random);
      const bool settled = watch.look().settled();
      REQUIRE(!settled || hops_left->load() == 0);
    }
  });
  for (const pid_t pid : disturbers) scene::end(pid);
}

// Many carriers that toss the token to any of them, as fast as they can: when a look comes by, it
// is mostly elsewhere, so that each in turn looks asleep. Only the run counters tell.
template <class Box>
void toss_a_token() {
  scene::as_timekeeper([] {
    constexpr std::size_t kTossers = 24;
    constexpr int kTosses = 20'000;
    // Where allowed, before all others: carriers and looks are to run side by side.
    setpriority(PRIO_PROCESS, 0, -20);
    const scene::Shared<std::atomic<int>> hops_left;
    std::array<std::unique_ptr<Mailbox>, kTossers> boxes;
    for (auto& box : boxes) box = std::make_unique<Box>();
    for (std::size_t i = 0; i < kTossers; ++i) {
      scene::start([&, i] {
        std::minstd_rand random(static_cast<unsigned>(i + 1));
        for (;;) {
          boxes[i]->take();
          if (--*hops_left.operator->() > 0) boxes[random() % kTossers]->put();
        }
      });
    }
    warpserve::ProcessWatch watch(getpid());
    REQUIRE(scene::settles(watch));
    hops_left->store(kTosses);
    boxes[0]->put();
    while (hops_left->load() > 0) {
      if (watch.look().settled()) REQUIRE(hops_left->load() == 0);
    }
    CHECK(scene::settles(watch));
  });
}

}  // namespace

TEST(no_tossed_token_is_overlooked_in_a_pipe) {
  toss_a_token<PipeMailbox>();
}
TEST(no_tossed_token_is_overlooked_in_a_futex) {
  toss_a_token<FutexMailbox>();
}
TEST(no_tossed_token_is_overlooked_on_loopback) {
  toss_a_token<TcpMailbox>();
}
TEST(no_token_is_overlooked_in_a_pipe) {
  pass_tokens<PipeMailbox>();
}
TEST(no_token_is_overlooked_in_a_futex) {
  pass_tokens<FutexMailbox>();
}
TEST(no_token_is_overlooked_on_loopback) {
  pass_tokens<TcpMailbox>();
}
