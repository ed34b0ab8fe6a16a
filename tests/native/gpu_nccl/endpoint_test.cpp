// Processes that ring each other, and outlive each other.
#include "cuda_shim/nccl/endpoint.hpp"

#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>

#include "tests/native/check.hpp"
#include "tests/native/gpu_memory/child_process.hpp"

namespace warpserve::gpu::nccl {
namespace {

class DeathWatch final : public Listener {
 public:
  void on_ring() override {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  void await_end_of(const Peer& peer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !peer.alive(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

TEST(a_dead_process_is_noticed_and_may_be_rung) {
  // What a pipe holds, and more.
  constexpr int kRings = 100'000;
  std::signal(SIGPIPE, SIG_DFL);
  ChildProcess other([](const Pipe& from_parent, const Pipe& to_parent) {
    to_parent.send(Endpoint::get().address());
    from_parent.receive<bool>();
  });
  const auto peer = Endpoint::get().peer(other.receive<ProcessAddress>());
  const auto watch = std::make_shared<DeathWatch>();
  Endpoint::get().add(watch);
  REQUIRE(peer->alive());
  peer->ring();
  other.kill_and_reap();
  for (int i = 0; i < kRings; ++i) peer->ring();
  watch->await_end_of(*peer);
  peer->ring();
}

}  // namespace
}  // namespace warpserve::gpu::nccl
