// Wall time of a barrier round over ZeroMQ: a lone jump, and rounds of many actors, which live in
// four members as the ranks of an engine would. One line of JSON a figure.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/native/wire/barrier_server.hpp"
#include "timekeeper/client/session.hpp"

namespace warpserve {
namespace {

using client::Actor;
using client::Session;

constexpr std::size_t kMembers = 4;

double median_us(std::vector<std::int64_t> samples_ns) {
  std::sort(samples_ns.begin(), samples_ns.end());
  return static_cast<double>(samples_ns[samples_ns.size() / 2]) / 1e3;
}

// One member: all of its actors wait for the same instant, round after round.
void run_member(std::vector<Actor>& actors, int rounds, std::vector<std::int64_t>& samples_ns) {
  for (int round = 1; round <= rounds; ++round) {
    const HostTime before = host_now();
    for (Actor& actor : actors) actor.start_wait(VirtualTime::from_ns(round * 1'000'000));
    for (Actor& actor : actors) actor.finish_wait();
    samples_ns.push_back((host_now() - before).ns());
  }
}

double round_us(const std::filesystem::path& folder, std::size_t actor_count, int rounds) {
  const std::size_t members = std::min(kMembers, actor_count);
  std::vector<Session> sessions;
  std::vector<std::vector<Actor>> actors(members);
  std::vector<std::vector<std::int64_t>> samples_ns(members);
  for (std::size_t m = 0; m < members; ++m) {
    sessions.push_back(Session::connect(folder, {.name = "member"}));
    for (std::size_t a = m; a < actor_count; a += members) {
      actors[m].push_back(sessions[m].add_actor("actor"));
    }
  }
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < members; ++m) {
    threads.emplace_back([&, m] { run_member(actors[m], rounds, samples_ns[m]); });
  }
  for (std::thread& thread : threads) thread.join();
  return median_us(samples_ns.front());
}

void measure(std::size_t actors, int rounds) {
  char name[] = "/tmp/warpserve-rounds-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  double us = 0;
  {
    GatewayOptions options;
    options.session_folder = folder;
    const BarrierServer server(options, [](const std::string&) {});
    us = round_us(folder, actors, rounds);
  }
  std::filesystem::remove_all(folder);
  std::cout << "{\"what\": \"barrier round over ZeroMQ\", \"actors\": " << actors
            << ", \"median_us\": " << us
            << ", \"us_per_actor\": " << us / static_cast<double>(actors) << "}" << std::endl;
}

}  // namespace
}  // namespace warpserve

int main() {
  warpserve::measure(1, 2'000);
  for (const std::size_t actors : {16, 64, 256, 1'024}) warpserve::measure(actors, 200);
  return 0;
}
