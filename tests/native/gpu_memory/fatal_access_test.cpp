#include "cuda_shim/memory/fatal_access.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

// A name that the report can give.
extern "C" [[gnu::noinline, gnu::visibility("default")]] Address allocate_the_weights(
    Memory& memory) {
  const Address address = memory.allocate(1, 80 * kMiB).value();
  asm volatile("" ::: "memory");  // no tail call
  return address;
}

namespace {

struct Ending {
  int status = 0;
  std::string errors;
};

// What a child that runs the body says on stderr, and how it ends.
Ending ending_of(const std::function<void()>& body) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = read(ends[0], part.data(), part.size())) > 0;) {
    ending.errors.append(part.data(), static_cast<std::size_t>(size));
  }
  close(ends[0]);
  waitpid(pid, &ending.status, 0);
  return ending;
}

bool died_of(const Ending& ending, int signal) {
  return WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == signal;
}

bool mentions(const Ending& ending, const std::string& part) {
  return ending.errors.find(part) != std::string::npos;
}

[[gnu::noipa]] char read_byte(Address address) {
  return *as<volatile char>(address);
}

struct sigaction before_the_dump;

constexpr std::string_view kDump = "a dump\n";

void dump(int) {
  CHECK_EQ(write(STDERR_FILENO, kDump.data(), kDump.size()), static_cast<ssize_t>(kDump.size()));
}

// As Python's faulthandler does it.
void dump_and_raise_again(int signal) {
  dump(signal);
  sigaction(signal, &before_the_dump, nullptr);
  raise(signal);
}

void install_dump() {
  static std::array<char, 64 * 1024> stack;
  const stack_t alternate{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_handler = dump_and_raise_again;
  action.sa_flags = SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before_the_dump);
}

void exit_with_seven(int) {
  _exit(7);
}

}  // namespace

TEST(an_access_to_compute_memory_names_the_buffer) {
  const Ending ending = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    memory.allocate(0, 100).value();
    read_byte(allocate_the_weights(memory) + 12'345);
  });
  CHECK(died_of(ending, SIGSEGV));
  CHECK(mentions(ending, "compute memory of GPU 1"));
  CHECK(mentions(ending, "byte 12345 of allocation 2, 83886080 bytes"));
  CHECK(mentions(ending, "gpu_memory_fatal_access_test: allocate_the_weights+0x"));
  CHECK(mentions(ending, "WARPSERVE_CONTROL_THRESHOLD_BYTES"));
}

TEST(a_write_is_fatal_too) {
  const Ending ending = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    *as<volatile char>(allocate_the_weights(memory)) = 1;
  });
  CHECK(died_of(ending, SIGSEGV));
  CHECK(mentions(ending, "byte 0 of allocation 1"));
}

TEST(freed_memory_is_named_as_such) {
  const Ending ending = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    const Address address = memory.allocate(0, 3 * kMiB).value();
    CHECK_STATUS(memory.free(address), kOk);
    read_byte(address);
  });
  CHECK(died_of(ending, SIGSEGV));
  CHECK(mentions(ending, "nothing is allocated"));
}

TEST(mapped_memory_without_access_is_named_as_such) {
  const Ending ending = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    VirtualMemory& virtual_memory = memory.virtual_memory();
    const Address address = virtual_memory.reserve(kBlock).value();
    CHECK_STATUS(virtual_memory.map(address, kBlock, virtual_memory.create(0, kBlock).value()),
                 kOk);
    read_byte(address);
  });
  CHECK(died_of(ending, SIGSEGV));
  CHECK(mentions(ending, "cuMemSetAccess"));
}

TEST(a_handler_that_was_installed_later_does_not_hide_the_access) {
  const Ending ending = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    const Address address = allocate_the_weights(memory);
    install_dump();
    read_byte(address + 77);
  });
  CHECK(died_of(ending, SIGSEGV));
  CHECK(mentions(ending, "a dump"));
  CHECK(mentions(ending, "byte 77 of allocation 1"));
  const Ending other = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    install_dump();
    read_byte(16);
  });
  CHECK(died_of(other, SIGSEGV));
  CHECK_EQ(other.errors, "a dump\n");
}

TEST(a_handler_of_before_adds_to_the_report) {
  const Ending ending = ending_of([] {
    signal(SIGSEGV, dump);
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    read_byte(allocate_the_weights(memory));
  });
  CHECK(died_of(ending, SIGSEGV));
  CHECK(mentions(ending, "byte 0 of allocation 1"));
  CHECK(mentions(ending, "a dump"));
}

TEST(other_faults_go_to_the_handler_of_before) {
  const Ending ending = ending_of([] {
    signal(SIGSEGV, exit_with_seven);
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    read_byte(16);
  });
  CHECK(WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == 7);
  CHECK_EQ(ending.errors, "");
}

TEST(other_faults_without_a_handler_end_the_process) {
  const Ending ending = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    read_byte(16);
  });
  CHECK(died_of(ending, SIGSEGV));
  CHECK_EQ(ending.errors, "");
  const Ending sent = ending_of([] {
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    kill(getpid(), SIGSEGV);
  });
  CHECK(died_of(sent, SIGSEGV));
  const Ending ignored = ending_of([] {
    signal(SIGSEGV, SIG_IGN);
    Memory memory(small_machine(), small_options());
    memory.report_fatal_accesses();
    kill(getpid(), SIGSEGV);
  });
  CHECK_EQ(ignored.status, 0);
}

TEST(a_system_call_gets_an_error_instead) {
  Memory memory(small_machine(), small_options());
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  CHECK_EQ(write(ends[1], as<char>(allocate_the_weights(memory)), 10), -1);
  CHECK_EQ(errno, EFAULT);
  close(ends[0]);
  close(ends[1]);
}
