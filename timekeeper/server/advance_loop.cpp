#include "timekeeper/server/advance_loop.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "timekeeper/server/audit.hpp"
#include "timekeeper/server/host_clock.hpp"
#include "timekeeper/server/in_seconds.hpp"
#include "timekeeper/server/procfs.hpp"
#include "timekeeper/server/roll_calls.hpp"
#include "timekeeper/server/supervisor.hpp"
#include "timekeeper/server/terminal.hpp"

namespace warpserve {

namespace {

// A thread that has rung goes to sleep within microseconds; one that works on is looked at once a
// millisecond, which costs about 3 % of a core.
constexpr auto kFirstBackoff = HostDuration::from_us(5);
constexpr auto kLastBackoff = HostDuration::from_ms(1);
constexpr std::int64_t kBackoffGrowth = 4;
// With nothing to do, a member that wakes up rings when it goes to sleep again. This is for one
// that blocks without our library's knowledge.
constexpr auto kQuietWait = HostDuration::from_ms(100);
constexpr auto kRateWindow = HostDuration::from_ms(1'000);
constexpr auto kEndGrace = HostDuration::from_ms(2'000);
constexpr std::size_t kViolationsKept = 20;

std::string program_name(pid_t pid) {
  const auto comm = read_proc_file(AT_FDCWD, "/proc/" + std::to_string(pid) + "/comm");
  return comm ? comm->substr(0, comm->find('\n')) : "?";
}

// What programs end each other with in the ordinary course of things.
bool is_polite(int signal_number) {
  return signal_number == SIGTERM || signal_number == SIGINT || signal_number == SIGHUP ||
         signal_number == SIGPIPE;
}

void report_death(const KilledMember& member) {
  fprintf(stderr, "warpserve: %s (process %lld) was killed by signal %d (%s) at %s\n",
          member.name.c_str(), static_cast<long long>(member.id), member.signal,
          strsignal(member.signal), in_seconds(member.at.ns()).c_str());
}

void report_death(const RemoteMember& member, const std::string& reason) {
  fprintf(stderr, "warpserve: remote member %s has died: %s\n", member.name.c_str(),
          reason.c_str());
}

}  // namespace

AdvanceLoop::AdvanceLoop(const Options& options, const SharedMemory& memory, EventQueue& events,
                         WakeDescriptors& wake_descriptors, Trace* trace, Gateway* gateway)
    : options_(options),
      memory_(memory),
      events_(events),
      trace_(trace),
      core_(options.mode, options.guard),
      board_link_(memory.board(), core_, wake_descriptors, trace),
      gateway_(gateway),
      watch_(getpid()),
      doorbell_(memory.board()),
      // The baseline is not to pay for rings that nobody needs.
      suspect_(options.mode == ClockMode::kSleep ? kListeningToNobody : kListeningToAll),
      backoff_(kFirstBackoff),
      started_(host_now()),
      rate_since_(started_) {
  if (gateway == nullptr) return;
  remote_.emplace(
      core_, *gateway,
      RemoteRoadHooks{.status_json = [this] { return to_json(state()); },
                      .member_left =
                          [](const RemoteMember& member, bool died, const std::string& reason) {
                            if (died) report_death(member, reason);
                          },
                      .gateway_failed =
                          [this](const std::string& text) {
                            fprintf(stderr, "warpserve: %s\n", text.c_str());
                            begin_end(text);
                          }});
}

AdvanceLoop::~AdvanceLoop() {
  if (ender_.joinable()) ender_.join();
}

void AdvanceLoop::run() {
  while (true) {
    doorbell_.listen(suspect_);
    handle_events();
    if (over_) break;
    if (remote_) remote_->apply_requests();
    turn();
    count_rate();
  }
  release_everybody();
}

// --- events -------------------------------------------------------------------------------------

void AdvanceLoop::handle_events() {
  for (Event& event : events_.drain()) {
    std::visit([this](auto& e) { handle(e); }, event);
    quiet_since_.reset();
  }
}

void AdvanceLoop::handle(ServerStarted& event) {
  watch_.watch_own_thread(event.tid);
}

void AdvanceLoop::handle(ProcessJoined& event) {
  const std::string name = program_name(event.pid);
  board_link_.add_process(event.pid, name);
  names_[event.pid] = name;
  if (!watch_.joined(event.pid) && watch_.add_root(event.pid)) {
    outside_roots_.insert(event.pid);
    watch_.joined(event.pid);
  }
  if (trace_ != nullptr) trace_->name_process(static_cast<std::uint32_t>(event.pid), name);
  event.known.set_value();
}

void AdvanceLoop::handle(ProcessLeft& event) {
  board_link_.remove_process(event.pid);
  watch_.left(event.pid);
}

void AdvanceLoop::handle(ProcessDied& event) {
  const auto name = names_.extract(event.pid);
  // At the end of the session it is we who kill, or the launcher.
  if (event.signal != 0 && !name.empty() && !is_ending_ && ended_because_.empty()) {
    killed_.push_back({event.pid, name.mapped(), event.signal, virtual_now(memory_.clock())});
    if (!is_polite(event.signal)) report_death(killed_.back());
  }
  board_link_.remove_process(event.pid);
  if (outside_roots_.erase(event.pid) == 1) watch_.remove_root(event.pid);
}

void AdvanceLoop::handle(StateAsked& event) {
  board_link_.update();
  event.answer.set_value(to_json(state()));
}

void AdvanceLoop::handle(EndAsked& event) {
  begin_end(event.why);
}

void AdvanceLoop::handle(EndingTold&) {
  is_ending_ = true;
}

void AdvanceLoop::handle(MembersEnded& event) {
  ended_members_ = event.count;
  over_ = true;
}

void AdvanceLoop::begin_end(const std::string& why) {
  if (!ended_because_.empty()) return;
  ended_because_ = why;
  ended_at_ = virtual_now(memory_.clock());
  // Time goes on meanwhile, so that members can tidy up as they would.
  ender_ = std::thread([this] { events_.push(MembersEnded{end_descendants(kEndGrace)}); });
}

void AdvanceLoop::release_everybody() {
  if (gateway_ != nullptr) gateway_->end(ended_because_);
  memory_.clock().ended.store(1);
  board_link_.update();
  board_link_.release_all();
}

// --- turns --------------------------------------------------------------------------------------

void AdvanceLoop::turn() {
  if (options_.mode != ClockMode::kExact) wake_the_due();
  if (options_.mode == ClockMode::kSleep) {
    const timespec deadline = host_deadline(kQuietWait);
    doorbell_.wait_for_ring(&deadline);
  } else if (options_.guard == GuardKind::kSettle) {
    turn_settle();
  } else {
    turn_barrier();
  }
}

// Members time their waits themselves where host time passes; remote actors and those that wait in
// an event loop are told.
void AdvanceLoop::wake_the_due() {
  board_link_.update();
  core_.carry(virtual_now(memory_.clock()));
  while (core_.next_target() && *core_.next_target() <= core_.now()) try_advance(false);
}

void AdvanceLoop::turn_settle() {
  look();
  if (last_look_.busy) {
    quiet_since_.reset();
    wait_for_thread(static_cast<std::uint32_t>(last_look_.busy->tid));
    return;
  }
  if (!events_.empty()) return;  // a member may sleep until we have seen to it
  board_link_.update();
  if (try_advance(true)) return;
  check_stall(true);
  wait_quietly();
}

void AdvanceLoop::turn_barrier() {
  board_link_.update();
  if (try_advance(false)) return;
  look();
  check_stall(last_look_.settled());
  wait_quietly();
}

void AdvanceLoop::look() {
  ++looks_;
  last_look_ = watch_.look();
  for (const auto& [pid, tid] : watch_.take_vanished()) board_link_.remove_thread(pid, tid);
}

bool AdvanceLoop::try_advance(bool settled) {
  core_.carry(virtual_now(memory_.clock()));
  const VirtualTime before = core_.now();
  const std::optional<Advance> advance = core_.advance(settled);
  if (!advance) return false;
  if (options_.audit && settled) audit_advance();
  if (advance->to > before) publish(advance->to);
  ++advances_;
  quiet_since_.reset();
  backoff_ = kFirstBackoff;
  if (remote_) remote_->announce(*advance);
  for (const ActorId actor : advance->woken) {
    if (const auto tid = board_link_.fire(actor)) suspect_ = *tid;
  }
  return true;
}

void AdvanceLoop::publish(VirtualTime to) {
  ClockPage& clock = memory_.clock();
  if (options_.mode == ClockMode::kExact) {
    clock.value_ns.store(to.ns());
  } else {
    // Host time may have carried it past `to` since the Core decided.
    const VirtualDuration ahead = to - virtual_now(clock);
    if (ahead > VirtualDuration()) clock.value_ns.store(clock.value_ns.load() + ahead.ns());
  }
}

std::vector<pid_t> AdvanceLoop::roots() const {
  std::vector<pid_t> roots(outside_roots_.begin(), outside_roots_.end());
  roots.push_back(getpid());
  return roots;
}

void AdvanceLoop::audit_advance() {
  ++audits_;
  for (std::string& violation : audit(roots())) {
    ++audit_violations_;
    if (first_violations_.size() < kViolationsKept)
      first_violations_.push_back(std::move(violation));
  }
}

// --- waiting ------------------------------------------------------------------------------------

timespec AdvanceLoop::host_deadline(HostDuration longest) const {
  HostTime deadline = host_now() + longest;
  const auto next = core_.next_target();
  if (options_.mode != ClockMode::kExact && next) {
    const VirtualDuration ahead = *next - virtual_now(memory_.clock());
    const auto host_ahead = HostDuration::from_ns(std::max<std::int64_t>(0, ahead.ns()));
    deadline = std::min(deadline, host_now().saturating_add(host_ahead));
  }
  return to_timespec(deadline);
}

void AdvanceLoop::wait_for_thread(std::uint32_t tid) {
  if (tid != suspect_) {
    // Listening has to begin before the look that finds it awake: look once more.
    suspect_ = tid;
    return;
  }
  const timespec deadline = host_deadline(backoff_);
  const bool rung = doorbell_.wait_for_ring(&deadline);
  backoff_ = rung ? kFirstBackoff : std::min(kLastBackoff, backoff_ * kBackoffGrowth);
}

void AdvanceLoop::wait_quietly() {
  if (suspect_ != kListeningToAll) {
    suspect_ = kListeningToAll;
    return;
  }
  const timespec deadline = host_deadline(kQuietWait);
  doorbell_.wait_for_ring(&deadline);
  backoff_ = kFirstBackoff;
}

void AdvanceLoop::check_stall(bool settled) {
  const Blocker blocker = core_.blocker(settled);
  const bool nothing_can_happen = settled && watch_.thread_count() > 0 &&
                                  (blocker == Blocker::kNoTarget || blocker == Blocker::kHeld ||
                                   blocker == Blocker::kActorWithoutTarget);
  if (!nothing_can_happen || !ended_because_.empty() || others_can_act()) {
    quiet_since_.reset();
    return;
  }
  if (!quiet_since_) quiet_since_ = host_now();
  if (host_now() - *quiet_since_ < options_.stall_grace) return;
  if (options_.on_stall == OnStall::kWait || waits_for_terminal(watch_.picture())) return;
  stalled_ = true;
  SessionState picture = state();
  picture.roll_calls = roll_call_lines(options_.folder);
  const std::string report = stall_report(picture);
  fputs(report.c_str(), stderr);
  begin_end("stalled");
}

// Whether something may come from where no look reaches: outside of the session, or another host.
bool AdvanceLoop::others_can_act() const {
  if (board_link_.asks_outside()) return true;
  if (!remote_) return false;
  return remote_->is_at_work() || (options_.listen && remote_->awaits_first_member());
}

void AdvanceLoop::count_rate() {
  const HostTime now = host_now();
  if (now - rate_since_ < kRateWindow) return;
  advances_per_s_ = static_cast<double>(advances_ - advances_at_rate_) * 1e9 /
                    static_cast<double>((now - rate_since_).ns());
  rate_since_ = now;
  advances_at_rate_ = advances_;
}

void AdvanceLoop::add_local_state(SessionState& state) const {
  for (const ProcessPicture& process : watch_.picture()) {
    state.members.push_back({process.pid, process.comm, process.is_member, false, {}});
    for (const ThreadPicture& thread : process.threads) {
      state.members.back().threads.push_back({thread.tid, thread.comm, thread.state, thread.wchan});
    }
  }
  state.killed = killed_;
  state.waiting = board_link_.waiting();
  for (const HoldingThread& holder : board_link_.holders()) {
    state.holders.push_back(
        "process " + std::to_string(holder.pid) + " (" + holder.label +
        (holder.asks_outside ? ", which is asking outside of the session)" : ")"));
  }
}

void AdvanceLoop::add_remote_state(SessionState& state) const {
  if (!remote_) return;
  for (const RemoteMember& member : remote_->members()) {
    state.members.push_back({member.member.value, member.name, true, true, {}});
  }
  for (const RemoteActor& actor : remote_->actors()) {
    if (!actor.target) continue;
    state.waiting.push_back({.pid = actor.member.value,
                             .tid = actor.actor.value,
                             .label = actor.name,
                             .target = *actor.target,
                             .remote = true});
  }
  for (const MemberId member : remote_->holders()) {
    state.holders.push_back("remote member " + std::to_string(member.value));
  }
}

SessionState AdvanceLoop::state() const {
  SessionState state{};
  state.mode = options_.mode;
  state.guard = options_.guard;
  state.now = ended_at_.value_or(virtual_now(memory_.clock()));
  state.host_elapsed = host_now() - started_;
  state.advances = advances_;
  state.looks = looks_;
  state.advances_per_s = advances_per_s_;
  state.blocker = core_.blocker(last_look_.settled());
  if (const auto& busy = last_look_.busy) {
    state.busy = BusyThread{busy->pid, busy->tid, busy->comm, describe(*busy)};
  }
  add_local_state(state);
  add_remote_state(state);
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(Warning::kCount); ++i) {
    state.warnings.emplace_back(word_for(static_cast<Warning>(i)),
                                memory_.board().warnings[i].load());
  }
  state.audits = audits_;
  state.audit_violations = audit_violations_;
  state.first_violations = first_violations_;
  state.trace_failure = trace_ != nullptr ? trace_->failure() : "";
  state.ended_because = ended_because_;
  state.stalled = stalled_;
  state.ended_members = ended_members_;
  return state;
}

}  // namespace warpserve
