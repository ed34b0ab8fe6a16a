// warpserve-timekeeper: owns the virtual time of one session. Started by `warpserve`.
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "timekeeper/server/advance_loop.hpp"
#include "timekeeper/server/control_server.hpp"
#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/events.hpp"
#include "timekeeper/server/options.hpp"
#include "timekeeper/server/session_lock.hpp"
#include "timekeeper/server/shared_memory.hpp"
#include "timekeeper/server/zmq/gateway.hpp"

namespace warpserve {
namespace {

enum ExitStatus : int { kEnded = 0, kUsage = 2, kStalled = 3, kInternal = 70 };

Token read_token(const std::string& folder) {
  const std::string path = folder + "/" + kTokenFile;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Token token{};
  if (!fd.valid() || read(fd.get(), token.data(), token.size()) != kTokenBytes) {
    throw UsageError("cannot read the token of the session at " + path);
  }
  return token;
}

void remove_session(const std::string& folder) {
  std::error_code error;  // the launcher removes it too
  std::filesystem::remove_all(folder, error);
}

// The signals of the terminal are for the members; the launcher says when the session ends.
void prepare_process() {
  for (const int signal_number : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGPIPE, SIGXFSZ}) {
    signal(signal_number, SIG_IGN);
  }
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  // Members inherit none of the launcher's descriptors but those that they are started with.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_TIMERSLACK, 1);
}

void say_ready(const Options& options) {
  if (options.ready_fd < 0) return;
  const Fd fd(options.ready_fd);
  if (write(fd.get(), "ready\n", 6) != 6) throw os_error("telling the launcher");
}

void write_summary(const Options& options, const SessionState& state) {
  if (!options.summary_file) return;
  const Fd fd(open(options.summary_file->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::string text = to_json(state);
  if (!fd.valid() || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw os_error("writing the summary " + *options.summary_file);
}

GatewayOptions gateway_options(const Options& options, const Token& token,
                               const SharedMemory& memory) {
  wire::SessionId session{};
  if (getrandom(session.data(), session.size(), 0) != static_cast<ssize_t>(session.size())) {
    throw os_error("getrandom");
  }
  return {.session_folder = options.folder,
          .libzmq_path = options.zmq_library,
          .token = token,
          .session = session,
          .mode = options.mode,
          .guard = options.guard,
          .realtime_epoch_ns = options.realtime_epoch_ns,
          .listen = options.listen.value_or(""),
          .advertised_host = options.advertised_host,
          .limits = {},
          .clock = [&memory] { return virtual_now(memory.clock()); },
          .doorbell = [&memory] { ring(memory.board()); }};
}

int serve(const Options& options) {
  prepare_process();
  const rlimit member_descriptor_limit = raise_descriptor_limit();
  const Token token = read_token(options.folder);
  const SessionLock lock(options.folder);
  const SharedMemory memory({.mode = options.mode,
                             .guard = options.guard,
                             .slot_capacity = options.slot_capacity,
                             .spin_limit = options.spin_limit,
                             .spin_quantum_ns = options.spin_quantum.ns(),
                             .realtime_epoch_ns = options.realtime_epoch_ns});
  std::optional<Trace> trace;
  if (options.trace_file) trace.emplace(*options.trace_file);
  EventQueue events([&memory] { ring(memory.board()); });
  WakeDescriptors wake_descriptors;
  std::optional<Gateway> gateway;
  if (!options.zmq_library.empty()) gateway.emplace(gateway_options(options, token, memory));
  AdvanceLoop loop(options, memory, events, wake_descriptors, trace ? &*trace : nullptr,
                   gateway ? &*gateway : nullptr);
  ControlServer control(options.folder, token, memory, wake_descriptors, events,
                        member_descriptor_limit);
  control.start();
  say_ready(options);
  loop.run();
  control.stop();
  if (trace) trace->finish();
  write_summary(options, loop.state());
  remove_session(options.folder);
  return loop.state().stalled ? kStalled : kEnded;
}

}  // namespace
}  // namespace warpserve

int main(int argc, char** argv) {
  try {
    return warpserve::serve(warpserve::parse_options(argc, argv));
  } catch (const warpserve::UsageError& error) {
    fprintf(stderr, "warpserve: %s\n", error.what());
    return warpserve::kUsage;
  } catch (const std::exception& error) {
    fprintf(stderr, "warpserve: the Timekeeper failed: %s\n", error.what());
    return warpserve::kInternal;
  }
}
