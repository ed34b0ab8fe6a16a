#include "cuda_shim/memory/account.hpp"

#include <fstream>
#include <string>

#include "tests/native/gpu_memory/child_process.hpp"
#include "tests/native/gpu_memory/fixture.hpp"
#include "tests/native/gpu_memory/temporary_folder.hpp"

using namespace warpserve::gpu;

TEST(grants_up_to_the_last_byte) {
  Account account("");
  CHECK(account.charge(0, 60, 100));
  CHECK(!account.charge(0, 41, 100));
  CHECK(account.charge(0, 40, 100));
  CHECK(!account.charge(0, 1, 100));
  CHECK(account.charge(1, 1, 100));
  CHECK(account.charge(kHostColumn, 7, 7));
  account.give_back(0, 30);
  CHECK_EQ(account.used_bytes(0), 70u);
  CHECK_EQ(account.used_bytes(1), 1u);
  CHECK(!account.charge(0, ~std::uint64_t{0}, 100));
}

TEST(processes_share_an_account) {
  const TemporaryFolder folder;
  const std::string path = folder.file("account");
  ChildProcess child([&path](const Pipe& from_parent, const Pipe& to_parent) {
    Account account(path);
    CHECK(account.charge(0, 60, 100));
    to_parent.send(true);
    from_parent.receive<bool>();
    CHECK(!account.charge(0, 1, 100));
    account.give_back(0, 20);
    to_parent.send(true);
    from_parent.receive<bool>();
  });
  Account account(path);
  child.receive<bool>();
  CHECK(!account.charge(0, 41, 100));
  CHECK(account.charge(0, 40, 100));
  const auto uses = account.uses(0);
  REQUIRE(uses.size() == 2);
  CHECK_EQ(uses[0].bytes + uses[1].bytes, 100u);
  child.send(true);
  child.receive<bool>();
  CHECK_EQ(account.used_bytes(0), 80u);
  child.send(true);
  CHECK_EQ(child.wait(), 0);
  CHECK_EQ(account.used_bytes(0), 40u);
}

TEST(a_killed_process_gives_all_back) {
  const TemporaryFolder folder;
  const std::string path = folder.file("account");
  Account account(path);
  for (int round = 0; round < 3; ++round) {
    ChildProcess child([&path](const Pipe&, const Pipe& to_parent) {
      Account of_child(path);
      CHECK(of_child.charge(3, 100, 100));
      to_parent.send(true);
      pause();
    });
    child.receive<bool>();
    CHECK(!account.charge(3, 1, 100));
    kill(child.pid(), SIGKILL);
    siginfo_t ended{};
    waitid(P_PID, static_cast<id_t>(child.pid()), &ended, WEXITED | WNOWAIT);
    // A zombie holds nothing any more.
    CHECK(account.charge(3, 100, 100));
    account.give_back(3, 100);
  }
}

TEST(a_kill_at_any_moment_leaves_the_account_usable) {
  const TemporaryFolder folder;
  const std::string path = folder.file("account");
  Account account(path);
  for (int round = 0; round < 20; ++round) {
    ChildProcess child([&path](const Pipe&, const Pipe& to_parent) {
      Account of_child(path);
      to_parent.send(true);
      for (;;) {
        if (of_child.charge(0, 10, 100)) of_child.give_back(0, 10);
      }
    });
    child.receive<bool>();
    usleep(static_cast<useconds_t>(97 * round));
    child.kill_and_reap();
    CHECK(account.charge(0, 100, 100));
    account.give_back(0, 100);
  }
}

TEST(processes_that_charge_at_once_never_exceed_the_limit) {
  const TemporaryFolder folder;
  const std::string path = folder.file("account");
  const ChildProcess::Body charge_often = [&path](const Pipe& from_parent, const Pipe& to_parent) {
    Account account(path);
    to_parent.send(true);
    from_parent.receive<bool>();
    for (int round = 0; round < 500; ++round) {
      if (!account.charge(0, 40, 100)) continue;
      const std::uint64_t used = account.used_bytes(0);
      CHECK(used == 40 || used == 80);
      account.give_back(0, 40);
    }
  };
  ChildProcess first(charge_often);
  ChildProcess second(charge_often);
  ChildProcess third(charge_often);
  for (const ChildProcess* child : {&first, &second, &third}) child->receive<bool>();
  for (const ChildProcess* child : {&first, &second, &third}) child->send(true);
  for (ChildProcess* child : {&first, &second, &third}) CHECK_EQ(child->wait(), 0);
  CHECK_EQ(Account(path).used_bytes(0), 0u);
}

TEST(a_child_that_was_forked_before_anything_was_charged_has_an_entry_of_its_own) {
  const TemporaryFolder folder;
  Account account(folder.file("account"));
  ChildProcess child([&account](const Pipe& from_parent, const Pipe& to_parent) {
    CHECK(account.charge(0, 50, 100));
    to_parent.send(true);
    from_parent.receive<bool>();
    account.give_back(0, 20);
    to_parent.send(true);
    from_parent.receive<bool>();
  });
  child.receive<bool>();
  CHECK(!account.charge(0, 60, 100));
  CHECK(account.charge(0, 10, 100));
  child.send(true);
  child.receive<bool>();
  CHECK_EQ(account.used_bytes(0), 40u);
  child.kill_and_reap();
  CHECK_EQ(account.used_bytes(0), 10u);
}

TEST(a_forked_child_has_no_part_in_it) {
  Account account("");
  CHECK(account.charge(0, 50, 100));
  ChildProcess child([&account](const Pipe&, const Pipe&) {
    CHECK(!account.charge(0, 1, 100));
    account.give_back(0, 50);
  });
  CHECK_EQ(child.wait(), 0);
  CHECK_EQ(account.used_bytes(0), 50u);
}

TEST(refuses_a_file_that_is_something_else) {
  const TemporaryFolder folder;
  const std::string path = folder.file("account");
  std::ofstream(path) << "this is no account";
  try {
    Account account(path);
    CHECK(false);
  } catch (const MemoryError& error) {
    CHECK(std::string(error.what()).find(path) != std::string::npos);
  }
  std::string kept;
  std::getline(std::ifstream(path), kept);
  CHECK_EQ(kept, "this is no account");
  try {
    Account account("/nonexistent/account");
    CHECK(false);
  } catch (const MemoryError& error) {
    CHECK(std::string(error.what()).find("/nonexistent/account") != std::string::npos);
  }
}
