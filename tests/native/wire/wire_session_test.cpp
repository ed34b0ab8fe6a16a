// The C++ client against the gateway: the paper's cases, holds, cancels, deaths, lost broadcasts.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/native/check.hpp"
#include "tests/native/wire/barrier_server.hpp"
#include "timekeeper/client/session.hpp"
#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/session_lock.hpp"

namespace warpserve {
namespace {

using client::Accepted;
using client::Actor;
using client::Session;

VirtualTime at_ms(std::int64_t ms) {
  return VirtualTime() + VirtualDuration::from_ms(ms);
}
VirtualDuration for_ms(std::int64_t ms) {
  return VirtualDuration::from_ms(ms);
}

// A private folder that goes with the test.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/warpserve-wire-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class TestSession {
 public:
  explicit TestSession(GatewayOptions options = {}) {
    options.session_folder = folder_.path();
    options.token.fill(7);
    options.session.fill(3);
    server_ = std::make_unique<BarrierServer>(options, [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    });
  }

  Session connect(const std::string& name, client::ConnectOptions options = {}) {
    options.name = name;
    return Session::connect(folder_.path(), std::move(options));
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  void stop() { server_.reset(); }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  Folder folder_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::unique_ptr<BarrierServer> server_;
};

TEST(a_lone_jump_returns_exactly_at_its_target) {
  TestSession test;
  Session session = test.connect("lone");
  Actor actor = session.add_actor("a");
  CHECK_EQ(actor.jump(for_ms(12)), at_ms(12));
  CHECK_EQ(session.now(), at_ms(12));
  CHECK_EQ(actor.jump(VirtualDuration()), at_ms(12));
  CHECK_EQ(session.ask_now(), at_ms(12));
}

TEST(targets_50_and_10) {
  TestSession test;
  Session first = test.connect("first");
  Session second = test.connect("second");
  Actor slow = first.add_actor("slow");
  Actor quick = second.add_actor("quick");
  slow.start_wait(at_ms(50));
  quick.start_wait(at_ms(10));
  CHECK_EQ(quick.finish_wait(), at_ms(10));
  quick.start_wait(at_ms(60));
  CHECK_EQ(slow.finish_wait(), at_ms(50));
  slow.start_wait(at_ms(60));
  CHECK_EQ(quick.finish_wait(), at_ms(60));
  CHECK_EQ(slow.finish_wait(), at_ms(60));
}

// The stamped message reaches the server's process while its actor runs until 500 ms; the actor
// takes the request up at 500 ms or, if it is cancelled, at once.
TEST(a_request_that_arrives_at_200_ms_while_another_runs_until_500_ms) {
  TestSession test;
  Session clients = test.connect("client");
  Session servers = test.connect("server");
  Actor dispatcher = clients.add_actor("dispatcher");
  Actor gpu = servers.add_actor("gpu");
  gpu.start_wait(at_ms(500));
  CHECK_EQ(dispatcher.jump(for_ms(200)), at_ms(200));
  const auto message = clients.stamp({});
  dispatcher.start_wait(at_ms(1'000));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  {
    const Accepted request = servers.accept(message);
    CHECK_EQ(request.sent_at, at_ms(200));
    CHECK_EQ(servers.now(), at_ms(200));
  }
  CHECK_EQ(gpu.finish_wait(), at_ms(500));
  gpu.start_wait(at_ms(1'000));
  CHECK_EQ(dispatcher.finish_wait(), at_ms(1'000));
}

TEST(a_cancelled_wait_ends_where_time_stands) {
  TestSession test;
  Session session = test.connect("m");
  Actor other = session.add_actor("other");
  Actor actor = session.add_actor("actor");
  actor.start_wait(at_ms(500));
  CHECK_EQ(other.jump(for_ms(20)), at_ms(20));
  std::thread waiter([&] { CHECK_EQ(actor.finish_wait(), at_ms(20)); });
  CHECK(actor.cancel());
  waiter.join();
  CHECK(!actor.cancel());
  actor.start_wait(at_ms(30));
  CHECK_EQ(other.wait_until(at_ms(30)), at_ms(30));
  CHECK_EQ(actor.finish_wait(), at_ms(30));
}

TEST(a_later_wait_takes_the_place_of_an_earlier_one) {
  TestSession test;
  Session session = test.connect("m");
  Actor actor = session.add_actor("a");
  Actor other = session.add_actor("b");
  actor.start_wait(at_ms(10));
  actor.start_wait(at_ms(40));
  CHECK_EQ(other.wait_until(at_ms(30)), at_ms(30));
  other.start_wait(at_ms(100));
  CHECK_EQ(actor.finish_wait(), at_ms(40));
}

TEST(a_hold_keeps_time_from_advancing) {
  TestSession test;
  Session session = test.connect("m");
  Actor actor = session.add_actor("a");
  auto hold = session.hold();
  actor.start_wait(at_ms(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_EQ(session.ask_now(), at_ms(0));
  hold.release();
  CHECK_EQ(actor.finish_wait(), at_ms(10));
}

TEST(an_observer_is_not_waited_for) {
  TestSession test;
  Session session = test.connect("m");
  Actor observer = session.add_actor("o", ActorKind::kObserver);
  Actor actor = session.add_actor("a");
  CHECK_EQ(actor.jump(for_ms(5)), at_ms(5));
  observer.start_wait(at_ms(7));
  CHECK_EQ(actor.jump(for_ms(5)), at_ms(10));
  CHECK(observer.finish_wait() >= at_ms(7));
}

TEST(the_next_actor_goes_on_when_one_is_removed) {
  TestSession test;
  Session session = test.connect("m");
  Actor actor = session.add_actor("a");
  actor.start_wait(at_ms(10));
  {
    const Actor idle = session.add_actor("idle");
  }
  CHECK_EQ(actor.finish_wait(), at_ms(10));
}

TEST(lost_broadcasts_cost_speed_only) {
  TestSession test;
  std::mt19937 random(1);
  client::ConnectOptions options;
  options.reask_interval = HostDuration::from_ms(5);
  options.loses_tick = [&](const wire::Tick&) { return random() % 4 != 0; };
  Session deaf = test.connect("deaf", options);
  Session well = test.connect("well");
  Actor a = deaf.add_actor("a");
  Actor b = well.add_actor("b");
  std::thread other([&] {
    for (int i = 1; i <= 20; ++i) CHECK_EQ(b.wait_until(at_ms(7 * i)), at_ms(7 * i));
    b.start_wait(at_ms(200));
  });
  for (int i = 1; i <= 40; ++i) CHECK_EQ(a.wait_until(at_ms(5 * i)), at_ms(5 * i));
  other.join();
}

TEST(time_that_was_lost_is_learnt_from_a_message) {
  TestSession test;
  client::ConnectOptions options;
  options.loses_tick = [](const wire::Tick&) { return true; };
  Session sender = test.connect("sender");
  Session receiver = test.connect("receiver", options);
  Actor actor = sender.add_actor("a");
  actor.jump(for_ms(33));
  const auto message = sender.stamp({});
  const Accepted accepted = receiver.accept(message);
  CHECK_EQ(receiver.now(), at_ms(33));
}

// A client sends a request every 10 ms to a server that takes 4 ms for each. The messages lie
// about for a random while. With stamps, no seed may change a virtual timestamp.
std::vector<std::int64_t> timestamps_under_jitter(unsigned seed) {
  TestSession test;
  Session clients = test.connect("client");
  Session servers = test.connect("server");
  Actor dispatcher = clients.add_actor("dispatcher");
  std::mt19937 random(seed);
  std::vector<std::int64_t> timestamps;
  std::mutex mutex;
  std::vector<std::thread> deliveries;
  for (int i = 0; i < 12; ++i) {
    dispatcher.jump(for_ms(10));
    auto message = clients.stamp({});
    const auto jitter = std::chrono::microseconds(random() % 3'000);
    deliveries.emplace_back([&, message = std::move(message), jitter] {
      std::this_thread::sleep_for(jitter);
      std::optional<Accepted> request = servers.accept(message);
      Actor work = servers.add_actor("work");
      work.start_jump(for_ms(4));
      request.reset();
      const VirtualTime done = work.finish_wait();
      const std::lock_guard lock(mutex);
      timestamps.push_back(done.ns());
    });
  }
  dispatcher.jump(for_ms(1'000));
  for (std::thread& delivery : deliveries) delivery.join();
  std::sort(timestamps.begin(), timestamps.end());
  return timestamps;
}

TEST(delivery_jitter_changes_no_timestamp) {
  const auto reference = timestamps_under_jitter(1);
  REQUIRE(reference.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK_EQ(reference[i], static_cast<std::int64_t>(10 * (i + 1) + 4) * 1'000'000);
  }
  for (unsigned seed = 2; seed < 5; ++seed) CHECK(timestamps_under_jitter(seed) == reference);
}

TEST(many_actors_over_many_rounds_see_exact_times) {
  TestSession test;
  Session one = test.connect("one");
  Session two = test.connect("two");
  std::vector<Actor> actors;
  for (int i = 0; i < 128; ++i) actors.push_back((i % 2 ? one : two).add_actor("a"));
  for (int round = 1; round <= 20; ++round) {
    for (Actor& actor : actors) actor.start_wait(at_ms(round));
    for (Actor& actor : actors) REQUIRE(actor.finish_wait() == at_ms(round));
  }
}

template <class Exception, class Body>
bool throws(Body body) {
  try {
    body();
  } catch (const Exception&) {
    return true;
  }
  return false;
}

TEST(impossible_durations_are_refused) {
  TestSession test;
  Session session = test.connect("m");
  Actor actor = session.add_actor("a");
  CHECK(throws<client::InvalidDuration>([&] { actor.jump(for_ms(-1)); }));
  CHECK(throws<client::InvalidDuration>([&] { actor.wait_until(VirtualTime::from_ns(-1)); }));
  actor.jump(for_ms(1));
  const auto largest = std::numeric_limits<std::int64_t>::max();
  CHECK(throws<client::InvalidDuration>([&] { actor.jump(VirtualDuration::from_ns(largest)); }));
  for (const double seconds : {-0.5, std::nan(""), HUGE_VAL, 1e30}) {
    CHECK(throws<client::InvalidDuration>([&] { client::virtual_seconds(seconds); }));
  }
  CHECK_EQ(actor.jump(client::virtual_seconds(0.001)), at_ms(2));
}

TEST(in_live_mode_host_time_carries_a_wait_though_no_broadcast_arrives) {
  GatewayOptions live;
  live.mode = ClockMode::kLive;
  TestSession test(live);
  client::ConnectOptions options;
  options.loses_tick = [](const wire::Tick&) { return true; };
  Session session = test.connect("live", options);
  Actor busy = session.add_actor("busy");
  Actor actor = session.add_actor("a");
  const VirtualTime target = session.now() + for_ms(20);
  const HostTime before = host_now();
  CHECK(actor.wait_until(target) >= target);
  CHECK(host_now() - before >= HostDuration::from_ms(19));
}

TEST(the_end_of_a_session_ends_every_wait) {
  TestSession test;
  Session session = test.connect("m");
  Actor idle = session.add_actor("idle");
  Actor actor = session.add_actor("a");
  actor.start_wait(at_ms(10));
  test.stop();
  CHECK(throws<client::SessionEnded>([&] { actor.finish_wait(); }));
  CHECK(throws<client::SessionEnded>([&] { session.ask_now(); }));
}

TEST(a_status_says_who_waits_for_what) {
  TestSession test;
  Session session = test.connect("m");
  Actor waiting = session.add_actor("waiting");
  const Actor working = session.add_actor("working");
  session.hold();  // and lets it go
  const auto hold = session.hold();
  waiting.start_wait(at_ms(1));
  CHECK_EQ(session.status_json(),
           "{\"members\":1,\"holds\":1,\"actors\":["
           "{\"name\":\"waiting\",\"target_ns\":1000000},"
           "{\"name\":\"working\",\"target_ns\":null}]}");
}

TEST(nobody_listens) {
  const Folder folder;
  CHECK(throws<BundleError>([&] { Session::connect(folder.path(), {.name = "m"}); }));
}

TEST(a_wrong_token_is_refused) {
  TestSession test;
  ConnectionBundle bundle = read_bundle(test.folder());
  bundle.token = std::string(2 * kTokenBytes, '0');
  write_bundle(test.folder() / "wrong.toml", bundle);
  CHECK(throws<client::TokenRefused>(
      [&] { Session::connect(test.folder() / "wrong.toml", {.name = "m"}); }));
}

TEST(a_full_session_refuses_the_next_member) {
  GatewayOptions options;
  options.limits = {.members = 1, .actors_per_member = 2, .holds_per_member = 1};
  TestSession test(options);
  Session session = test.connect("m");
  CHECK(throws<client::SessionError>([&] { test.connect("one too many"); }));
  const Actor a = session.add_actor("a");
  const Actor b = session.add_actor("b");
  CHECK(throws<client::SessionError>([&] { session.add_actor("c"); }));
  auto hold = session.hold();
  CHECK(throws<client::SessionError>([&] { session.hold(); }));
  hold.release();
  session.hold();
}

TEST(a_second_timekeeper_on_the_same_folder_is_refused) {
  const Folder folder;
  const SessionLock lock(folder.path());
  CHECK(throws<UsageError>([&] { SessionLock second(folder.path()); }));
}

TEST(over_tcp_only_the_session_key_is_admitted) {
  GatewayOptions options;
  options.listen = "tcp://127.0.0.1:*";
  TestSession test(options);
  const auto file = test.folder() / kRemoteBundleFile;
  Session session = Session::connect(file, {.name = "remote"});
  Actor actor = session.add_actor("a");
  CHECK_EQ(actor.jump(for_ms(3)), at_ms(3));

  const auto library = zmq::Library::load("");
  ConnectionBundle stranger = read_bundle(file);
  const zmq::KeyPair keys = zmq::make_key_pair(*library);
  stranger.client_public_key = keys.public_key;
  stranger.client_secret_key = keys.secret_key;
  write_bundle(test.folder() / "stranger.toml", stranger);
  const auto refused = [&](const char* bundle) {
    return throws<client::SessionError>([&] {
      Session::connect(test.folder() / bundle,
                       {.name = "stranger", .timeout = HostDuration::from_ms(300)});
    });
  };
  CHECK(refused("stranger.toml"));

  ConnectionBundle plain = read_bundle(file);
  plain.server_public_key = plain.client_public_key = plain.client_secret_key = "";
  write_bundle(test.folder() / "plain.toml", plain);
  CHECK(refused("plain.toml"));
}

TEST(the_network_needs_an_address_that_others_can_use) {
  GatewayOptions options;
  for (const char* listen :
       {"tcp://0.0.0.0:*", "tcp://127.0.0.1", "udp://127.0.0.1:1", "tcp://:5"}) {
    options.listen = listen;
    CHECK(throws<zmq::ZmqError>([&] { TestSession test(options); }));
  }
}

TEST(a_missing_libzmq_is_named_with_its_remedy) {
  try {
    zmq::Library::load("/nowhere/libzmq.so");
    CHECK(false);
  } catch (const zmq::ZmqError& error) {
    CHECK(std::string(error.what()).find("pip install pyzmq") != std::string::npos);
  }
}

}  // namespace
}  // namespace warpserve
