#include "cuda_shim/memory/fatal_access.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {
namespace {

std::atomic<const State*> reported_state{nullptr};
std::atomic<bool> handlers_installed{false};
struct sigaction previous_segv;
struct sigaction previous_bus;

// Text in a fixed buffer, for a signal handler: no heap, no locale.
class Message {
 public:
  Message& operator<<(std::string_view text) {
    const std::size_t room = buffer_.size() - length_;
    const std::size_t taken = text.size() < room ? text.size() : room;
    std::memcpy(buffer_.data() + length_, text.data(), taken);
    length_ += taken;
    return *this;
  }
  Message& operator<<(std::uint64_t number) { return digits(number, 10); }
  Message& hex(std::uint64_t number) {
    *this << "0x";
    return digits(number, 16);
  }
  void write_out() {
    std::size_t written = 0;
    while (written < length_) {
      const ssize_t rc = write(STDERR_FILENO, buffer_.data() + written, length_ - written);
      if (rc < 0 && errno != EINTR) break;
      if (rc > 0) written += static_cast<std::size_t>(rc);
    }
    length_ = 0;
  }

 private:
  Message& digits(std::uint64_t number, std::uint64_t base) {
    std::array<char, 20> text;
    std::size_t first = text.size();
    do {
      text[--first] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number > 0);
    return *this << std::string_view(text.data() + first, text.size() - first);
  }

  std::array<char, 2048> buffer_;
  std::size_t length_ = 0;
};

// dladdr takes the loader's lock, which is why names come after all else has been written.
void write_frame(void* frame) {
  Message line;
  line << "    ";
  Dl_info info{};
  if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) {
    line.hex(address_of(frame)) << "\n";
  } else {
    const std::string_view path = info.dli_fname;
    line << path.substr(path.rfind('/') + 1) << ": ";
    if (info.dli_sname != nullptr) {
      line << info.dli_sname << "+";
      line.hex(address_of(frame) - address_of(info.dli_saddr)) << "\n";
    } else {
      line << "+";
      line.hex(address_of(frame) - address_of(info.dli_fbase)) << "\n";
    }
  }
  line.write_out();
}

void write_allocation(const Allocation& allocation, Address address) {
  const bool compute = allocation.residency == Residency::kCompute;
  Message message;
  message << "warpserve: the CPU accessed "
          << (compute ? "compute memory" : "memory without access rights") << " of GPU "
          << static_cast<std::uint64_t>(allocation.device) << " at ";
  message.hex(address) << ": byte " << address - allocation.base << " of allocation "
                       << allocation.number << ", " << allocation.bytes << " bytes at ";
  message.hex(allocation.base) << ".\n";
  if (compute) {
    message << "  Compute memory has addresses and no contents. What the CPU reads has to be "
               "control memory: allocate it\n  in a mark_control scope, or set "
            << kControlThresholdVariable << " above its size.\n";
  } else {
    message << "  Nobody was given access to this mapping (cuMemSetAccess).\n";
  }
  message.write_out();
  if (!allocation.origin) return;
  message << "  It was allocated at\n";
  message.write_out();
  for (void* frame : *allocation.origin) {
    if (frame == nullptr) break;
    write_frame(frame);
  }
}

void write_report(const State& state, Address address) {
  // The thread may have been interrupted while it held the mutex; others release it soon.
  constexpr int kAttempts = 10'000;
  bool locked = false;
  for (int i = 0; i < kAttempts && !locked; ++i) {
    locked = state.mutex.try_lock_shared();
    if (!locked) sched_yield();
  }
  const Allocation* const found = locked ? state.directory.find(address) : nullptr;
  if (found != nullptr) {
    write_allocation(*found, address);
    return;
  }
  Message message;
  message << "warpserve: the CPU accessed GPU memory at ";
  message.hex(address) << (locked ? ", where nothing is allocated (any more).\n"
                                  : ", while an allocation was under way.\n");
  message.write_out();
}

void fall_back_to_default(int signal) {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

// What was installed before us, if anything was.
bool call_previous(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
    return true;
  }
  if (previous.sa_handler == SIG_DFL) return false;
  // Only what was sent can be ignored.
  if (previous.sa_handler == SIG_IGN) return info->si_code <= 0;
  previous.sa_handler(signal);
  return true;
}

// A fault comes again when the handler returns; what was sent has to be sent again.
void end_by_default(int signal, const siginfo_t& info) {
  fall_back_to_default(signal);
  if (info.si_code <= 0) raise(signal);
}

// Where in our ranges the CPU was; 0 where the signal is no matter of ours.
//
// A handler that was installed after ours (Python's faulthandler is such a one) dumps what it
// knows, puts ours back and raises the signal again. What is delivered then has no address, but the
// thread's context still tells its last fault (CR2).
Address accessed_address(const siginfo_t& info, const ucontext_t& context) {
  const bool raised_again = info.si_code == SI_TKILL && info.si_pid == getpid();
  if (info.si_code <= 0 && !raised_again) return 0;
  const Address address = raised_again ? static_cast<Address>(context.uc_mcontext.gregs[REG_CR2])
                                       : address_of(info.si_addr);
  return is_reserved_address(address) ? address : 0;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const State* const state = reported_state.load();
  const Address address =
      state == nullptr ? 0 : accessed_address(*info, *static_cast<const ucontext_t*>(context));
  if (address != 0) {
    write_report(*state, address);
    end_by_default(signal, *info);
    // It may know more: Python's faulthandler says which line it was.
    call_previous(signal, info, context);
  } else if (!call_previous(signal, info, context)) {
    end_by_default(signal, *info);
  }
  errno = saved_errno;
}

}  // namespace

void install_fatal_access_report(const State& state) {
  reported_state.store(&state);
  if (handlers_installed.exchange(true)) return;
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
}

void withdraw_fatal_access_report(const State& state) {
  const State* expected = &state;
  reported_state.compare_exchange_strong(expected, nullptr);
}

}  // namespace warpserve::gpu
