#include "timekeeper/server/process_watch.hpp"

#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "tests/native/check.hpp"
#include "tests/native/watch/session.hpp"

using namespace std::chrono_literals;
using scene::as_timekeeper;
using scene::busy_until;
using scene::Pipe;
using scene::settles;
using scene::Shared;
using warpserve::Busy;
using warpserve::BusyReason;
using warpserve::ChildrenFrom;
using warpserve::ProcessWatch;

namespace {

pid_t own_tid() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

bool is_zombie(const ProcessWatch& watch, pid_t pid) {
  return std::ranges::any_of(watch.picture(), [&](const auto& process) {
    return process.pid == pid && !process.threads.empty() && process.threads[0].state == 'Z';
  });
}

bool knows(const ProcessWatch& watch, pid_t pid) {
  return std::ranges::any_of(watch.picture(), [&](const auto& p) { return p.pid == pid; });
}

void watch_a_daemon(ChildrenFrom children) {
  as_timekeeper([&] {
    ProcessWatch watch(getpid(), children);
    const Shared<std::atomic<pid_t>> daemon;
    const Pipe go;
    CHECK(settles(watch));
    const pid_t parent = scene::start([&] {
      if (fork() == 0) {
        setsid();
        if (fork() == 0) {
          go.await();
          daemon->store(getpid());
          scene::spin();
        }
      }
    });
    waitpid(parent, nullptr, 0);
    CHECK(settles(watch));
    go.signal();
    const auto busy =
        busy_until(watch, [&](const Busy& b) { return b.pid == daemon->load() && b.state == 'R'; });
    CHECK(busy.has_value());
  });
}

void find_an_orphan(ChildrenFrom children) {
  as_timekeeper([&] {
    ProcessWatch watch(getpid(), children);
    const Shared<std::atomic<pid_t>> orphan;
    const Pipe go;
    scene::start([&] {
      go.await();
      if (fork() == 0) {
        if (fork() == 0) {
          orphan->store(getpid());
          scene::sleep_for_ever();
        }
        _exit(0);
      }
      wait(nullptr);
      scene::sleep_for_ever();
    });
    CHECK(settles(watch));
    go.signal();
    while (orphan->load() == 0) scene::pause_host(100us);
    CHECK(settles(watch));
    CHECK(knows(watch, orphan->load()));
  });
}

struct Chain {
  std::atomic<int> to_come{0};
  std::atomic<bool> done{false};
};

// Each makes the next and goes to sleep.
void* link_of_chain(void* argument) {
  Chain& chain = *static_cast<Chain*>(argument);
  if (chain.to_come.fetch_sub(1) == 0) {
    chain.done = true;
  } else {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65'536);
    pthread_t next{};
    pthread_create(&next, &small, link_of_chain, argument);
  }
  scene::sleep_for_ever();
}

}  // namespace

TEST(nobody_is_settled) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 0U);
  });
}

TEST(sleepers_are_settled) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    for (int i = 0; i < 3; ++i) scene::start(scene::sleep_for_ever);
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 3U);
  });
}

TEST(a_spinning_thread_is_named) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Shared<std::atomic<pid_t>> spinner;
    const pid_t pid = scene::start([&] {
      std::thread([&] {
        pthread_setname_np(pthread_self(), "spinner");
        spinner->store(own_tid());
        scene::spin();
      }).detach();
      scene::sleep_for_ever();
    });
    // A look may have begun before the thread had its name.
    const auto busy = busy_until(
        watch, [&](const Busy& b) { return b.tid == spinner->load() && b.comm == "spinner"; });
    REQUIRE(busy.has_value());
    CHECK_EQ(busy->pid, pid);
    CHECK_EQ(busy->state, 'R');
    CHECK_EQ(busy->reason, BusyReason::kCanRun);
    for (int i = 0; i < 1'000; ++i) REQUIRE(!watch.look().settled());
  });
}

TEST(a_stopped_process_is_not_asleep) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t pid = scene::start(scene::sleep_for_ever);
    CHECK(settles(watch));
    kill(pid, SIGSTOP);
    waitpid(pid, nullptr, WUNTRACED);
    const auto busy = watch.look().busy;
    REQUIRE(busy.has_value());
    CHECK_EQ(busy->state, 'T');
    CHECK_EQ(busy->reason, BusyReason::kStopped);
    CHECK(describe(*busy).find("SIGSTOP") != std::string::npos);
    kill(pid, SIGCONT);
    CHECK(settles(watch));
  });
}

TEST(a_debugged_process_is_not_asleep) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t pid = scene::start(scene::sleep_for_ever);
    CHECK(settles(watch));
    REQUIRE(ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0);
    waitpid(pid, nullptr, __WALL);
    const auto busy = watch.look().busy;
    REQUIRE(busy.has_value());
    CHECK_EQ(busy->state, 't');
    CHECK_EQ(busy->reason, BusyReason::kStopped);
    ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
    CHECK(settles(watch));
  });
}

TEST(a_static_binary_that_computes_is_busy) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t pid = scene::start_program({STATIC_PROBE, "compute"});
    CHECK(busy_until(watch, [&](const Busy& b) {
            return b.pid == pid && b.comm.starts_with("watch_static_pr") &&
                   b.reason == BusyReason::kCanRun;
          }).has_value());
    for (int i = 0; i < 100; ++i) REQUIRE(!watch.look().settled());
  });
}

TEST(a_static_binary_that_sleeps_on_host_time_is_busy_until_it_ends) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t pid = scene::start_program({STATIC_PROBE, "sleep", "300"});
    const auto busy =
        busy_until(watch, [](const Busy& b) { return b.reason == BusyReason::kHostSleep; });
    REQUIRE(busy.has_value());
    CHECK_EQ(busy->pid, pid);
    CHECK(describe(*busy).find("is not a member (static binary?)") != std::string::npos);
    CHECK(settles(watch));
    CHECK(is_zombie(watch, pid));
  });
}

TEST(a_static_binary_that_waits_for_ever_is_asleep) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    scene::start_program({STATIC_PROBE, "wait"});
    CHECK(settles(watch));
  });
}

TEST(a_member_may_sleep_with_a_timeout) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t pid = scene::start([] { scene::pause_host(60s); });
    CHECK(busy_until(watch, [](const Busy& b) {
            return b.reason == BusyReason::kHostSleep;
          }).has_value());
    CHECK(watch.joined(pid));
    CHECK(settles(watch));
    watch.left(pid);
    CHECK(!watch.look().settled());
  });
}

TEST(a_member_that_becomes_another_program_is_none) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Pipe go;
    const pid_t pid = scene::start([&] {
      go.await();
      execl(STATIC_PROBE, STATIC_PROBE, "sleep", "60000", nullptr);
    });
    CHECK(settles(watch));
    CHECK(watch.joined(pid));
    CHECK(settles(watch));
    go.signal();
    CHECK(busy_until(watch, [](const Busy& b) {
            return b.reason == BusyReason::kHostSleep;
          }).has_value());
  });
}

TEST(only_processes_of_the_tree_can_join) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    CHECK(!watch.joined(getppid()));
    const pid_t pid = scene::start(scene::sleep_for_ever);
    CHECK(watch.joined(pid));
  });
}

TEST(grandchildren_and_daemons_are_watched) {
  watch_a_daemon(ChildrenFrom::kBestOfKernel);
}

TEST(grandchildren_and_daemons_are_watched_without_children_files) {
  watch_a_daemon(ChildrenFrom::kAllProcesses);
}

TEST(a_grandchild_whose_parent_ends_between_looks_is_found) {
  find_an_orphan(ChildrenFrom::kBestOfKernel);
}

TEST(an_orphan_is_found_without_children_files) {
  find_an_orphan(ChildrenFrom::kAllProcesses);
}

TEST(a_child_between_fork_and_exec_is_watched) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t pid = scene::start([] {
      if (vfork() == 0) {
        for (;;) pause();
      }
    });
    // The parent is in state D until its vfork child calls exec or ends; the child sleeps.
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 2U);
    const auto picture = watch.picture();
    CHECK(std::ranges::any_of(picture, [&](const auto& process) {
      return process.pid == pid && process.threads[0].state == 'D';
    }));
  });
}

TEST(a_main_thread_that_ended_does_not_hide_the_others) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Pipe go;
    const pid_t pid = scene::start([&] {
      std::thread([&] {
        go.await();
        scene::spin();
      }).detach();
      syscall(SYS_exit, 0);
    });
    CHECK(settles(watch));
    CHECK(is_zombie(watch, pid));
    CHECK_EQ(watch.thread_count(), 2U);
    go.signal();
    CHECK(
        busy_until(watch, [&](const Busy& b) { return b.pid == pid && b.tid != pid; }).has_value());
  });
}

TEST(exec_by_another_thread_than_the_main_one) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Pipe go;
    const pid_t pid = scene::start([&] {
      std::thread([&] {
        go.await();
        execl(STATIC_PROBE, STATIC_PROBE, "compute", nullptr);
      }).detach();
      syscall(SYS_exit, 0);
    });
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 2U);
    go.signal();
    // The new program has the number of the main thread, which was a zombie.
    CHECK(busy_until(watch, [&](const Busy& b) {
            return b.tid == pid && b.comm.starts_with("watch_static_pr");
          }).has_value());
    for (int i = 0; i < 100; ++i) REQUIRE(!watch.look().settled());
    CHECK_EQ(watch.thread_count(), 1U);
  });
}

TEST(threads_that_end_are_reported_once) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Shared<std::atomic<pid_t>> tid;
    const Pipe go;
    const pid_t pid = scene::start([&] {
      std::thread thread([&] {
        tid->store(own_tid());
        go.await();
      });
      thread.join();
      scene::sleep_for_ever();
    });
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 2U);
    watch.take_vanished();
    go.signal();
    while (watch.thread_count() != 1) {
      watch.look();
      scene::pause_host(100us);
    }
    const auto vanished = watch.take_vanished();
    REQUIRE(vanished.size() == 1);
    CHECK_EQ(vanished[0].first, pid);
    CHECK_EQ(vanished[0].second, tid->load());
    CHECK(watch.take_vanished().empty());
  });
}

TEST(threads_that_come_and_go_never_look_settled) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Shared<std::atomic<bool>> done;
    const Shared<std::atomic<int>> made;
    scene::start([&] {
      // Somebody always runs or is being woken, seldom the same thread twice.
      for (; made->load() < 2'000; ++*made.operator->()) std::thread([] {}).join();
      done->store(true);
      scene::sleep_for_ever();
    });
    while (made->load() == 0) scene::pause_host(100us);
    while (!done->load()) {
      const bool was_done = done->load();
      if (watch.look().settled()) REQUIRE(was_done || done->load());
    }
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 1U);
  });
}

TEST(a_thread_chain_never_looks_settled) {
  for (int round = 0; round < 200; ++round) {
    as_timekeeper([] {
      ProcessWatch watch(getpid());
      const Shared<Chain> chain;
      chain->to_come = 30;
      scene::start([&] { link_of_chain(chain.operator->()); });
      while (!chain->done) {
        if (watch.look().settled()) REQUIRE(chain->done);
      }
      CHECK(settles(watch));
      CHECK_EQ(watch.thread_count(), 31U);
    });
  }
}

TEST(a_fork_chain_never_looks_settled) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Shared<std::atomic<bool>> done;
    scene::start([&] {
      // Each makes the next and ends at once: its orphan moves to the Timekeeper.
      for (int generation = 0; generation < 500; ++generation) {
        if (fork() != 0) _exit(0);
      }
      done->store(true);
      scene::sleep_for_ever();
    });
    while (!done->load()) {
      if (watch.look().settled()) REQUIRE(done->load());
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
    }
    CHECK(settles(watch));
  });
}

TEST(a_process_id_used_again_is_not_the_same_process) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t first = scene::start([] { scene::pause_host(60s); });
    CHECK(watch.joined(first));
    CHECK(settles(watch));
    scene::end(first);
    // The next process gets the very same number.
    clone_args request{};
    request.exit_signal = SIGCHLD;
    request.set_tid = reinterpret_cast<std::uint64_t>(&first);
    request.set_tid_size = 1;
    const long second = syscall(SYS_clone3, &request, sizeof(request));
    if (second == 0) {
      scene::pause_host(60s);
      _exit(0);
    }
    REQUIRE(second == first);
    CHECK(busy_until(watch, [](const Busy& b) {
            return b.reason == BusyReason::kHostSleep;
          }).has_value());
  });
}

TEST(a_process_from_elsewhere_is_watched_while_it_is_a_root) {
  const pid_t stranger = scene::start(scene::spin);
  as_timekeeper([&] {
    ProcessWatch watch(getpid());
    CHECK(settles(watch));
    CHECK(watch.add_root(stranger));
    const auto busy = watch.look().busy;
    REQUIRE(busy.has_value());
    CHECK_EQ(busy->pid, stranger);
    watch.remove_root(stranger);
    CHECK(settles(watch));
  });
  scene::end(stranger);
}

TEST(an_own_thread_that_serves_members_is_watched) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const Pipe request;
    const Pipe answer;
    std::atomic<pid_t> tid{0};
    std::atomic<bool> works{false};
    std::thread server([&] {
      tid = own_tid();
      request.await();
      while (works) {
      }
      answer.signal();
      request.await();
    });
    while (tid == 0) std::this_thread::yield();
    CHECK(watch.watch_own_thread(tid));
    works = true;
    scene::start([&] {
      request.signal();
      answer.await();
      scene::sleep_for_ever();
    });
    CHECK(busy_until(watch, [&](const Busy& b) { return b.tid == tid; }).has_value());
    for (int i = 0; i < 100; ++i) REQUIRE(!watch.look().settled());
    works = false;
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 1U);
    request.signal();
    server.join();
    CHECK(settles(watch));
    CHECK(!watch.watch_own_thread(tid));
  });
}

TEST(a_picture_shows_commands_and_threads) {
  as_timekeeper([] {
    ProcessWatch watch(getpid());
    const pid_t pid = scene::start_program({STATIC_PROBE, "wait"});
    CHECK(settles(watch));
    const auto picture = watch.picture();
    REQUIRE(picture.size() == 1);
    CHECK_EQ(picture[0].pid, pid);
    CHECK_EQ(picture[0].parent, getpid());
    CHECK(!picture[0].is_member);
    CHECK((picture[0].command_line == std::vector<std::string>{STATIC_PROBE, "wait"}));
    REQUIRE(picture[0].threads.size() == 1);
    CHECK_EQ(picture[0].threads[0].tid, pid);
    CHECK_EQ(picture[0].threads[0].state, 'S');
    CHECK(!picture[0].threads[0].wchan.empty());
  });
}

TEST(thousands_of_threads) {
  as_timekeeper([] {
    warpserve::raise_descriptor_limit();
    ProcessWatch watch(getpid());
    scene::start([] {
      for (int i = 0; i < 2'000; ++i) {
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 65'536);
        pthread_t thread{};
        pthread_create(&thread, &small, [](void*) -> void* { scene::sleep_for_ever(); }, nullptr);
      }
      scene::sleep_for_ever();
    });
    CHECK(settles(watch));
    CHECK_EQ(watch.thread_count(), 2'001U);
  });
}
