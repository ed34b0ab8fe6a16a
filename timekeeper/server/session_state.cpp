#include "timekeeper/server/session_state.hpp"

#include <algorithm>

#include "timekeeper/server/in_seconds.hpp"
#include "timekeeper/server/json.hpp"

namespace warpserve {

namespace {

void write_threads(JsonWriter& json, const MemberState& member) {
  json.key("threads").begin_array();
  for (const ThreadState& thread : member.threads) {
    json.begin_object().field("tid", thread.tid).field("name", thread.name);
    json.field("state", std::string(1, thread.state)).field("in", thread.in).end_object();
  }
  json.end_array();
}

void write_members(JsonWriter& json, const SessionState& state) {
  json.key("members").begin_array();
  for (const MemberState& member : state.members) {
    json.begin_object().field("id", member.id).field("name", member.name);
    json.field("virtual_clock", member.virtual_clock).field("remote", member.remote);
    write_threads(json, member);
    json.end_object();
  }
  json.end_array();
}

void write_waiting(JsonWriter& json, const SessionState& state) {
  json.key("waiting").begin_array();
  for (const WaitingThread& thread : state.waiting) {
    json.begin_object().field("pid", thread.pid).field("tid", thread.tid);
    json.field("in", thread.label).field("target_ns", thread.target.ns()).end_object();
  }
  json.end_array();
}

void write_killed(JsonWriter& json, const SessionState& state) {
  json.key("killed").begin_array();
  for (const KilledMember& member : state.killed) {
    json.begin_object().field("id", member.id).field("name", member.name);
    json.field("signal", member.signal).field("virtual_ns", member.at.ns()).end_object();
  }
  json.end_array();
}

void write_busy(JsonWriter& json, const SessionState& state) {
  json.key("busy");
  if (!state.busy) {
    json.null();
    return;
  }
  json.begin_object().field("pid", state.busy->pid).field("tid", state.busy->tid);
  json.field("name", state.busy->name).field("why", state.busy->why).end_object();
}

void write_warnings(JsonWriter& json, const SessionState& state) {
  json.key("warnings").begin_object();
  for (const auto& [name, count] : state.warnings) json.field(name, count);
  json.end_object();
}

void write_audit(JsonWriter& json, const SessionState& state) {
  json.key("audit").begin_object();
  json.field("advances_checked", state.audits).field("violations", state.audit_violations);
  json.key("first_violations").begin_array();
  for (const std::string& violation : state.first_violations) json.value(violation);
  json.end_array().end_object();
}

std::string thread_line(const ThreadState& thread, const std::vector<WaitingThread>& waiting) {
  std::string text = "    thread " + std::to_string(thread.tid) + " " + thread.name + " waits in ";
  const auto timed = std::ranges::find_if(
      waiting, [&](const WaitingThread& wait) { return !wait.remote && wait.tid == thread.tid; });
  return text + (timed == waiting.end()
                     ? thread.in + ", without a deadline\n"
                     : timed->label + " until " + in_seconds(timed->target.ns()) + "\n");
}

std::string remote_lines(const MemberState& member, const std::vector<WaitingThread>& waiting) {
  std::string text;
  for (const WaitingThread& wait : waiting) {
    if (!wait.remote || wait.pid != member.id) continue;
    text += "    actor " + std::to_string(wait.tid) + " " + wait.label + " waits until " +
            in_seconds(wait.target.ns()) + "\n";
  }
  return text;
}

}  // namespace

const char* word_for(ClockMode mode) {
  switch (mode) {
    case ClockMode::kExact:
      return "exact";
    case ClockMode::kLive:
      return "live";
    case ClockMode::kSleep:
      return "sleep";
  }
  return "?";
}

const char* word_for(GuardKind guard) {
  return guard == GuardKind::kSettle ? "settle" : "barrier";
}

const char* word_for(Blocker blocker) {
  switch (blocker) {
    case Blocker::kNothing:
      return "nothing";
    case Blocker::kNotSettled:
      return "a thread can run";
    case Blocker::kHeld:
      return "a hold is out";
    case Blocker::kActorWithoutTarget:
      return "an actor is at work, or there is none";
    case Blocker::kNoTarget:
      return "nobody waits for an instant";
    case Blocker::kHostTime:
      return "host time has to pass";
  }
  return "?";
}

const char* word_for(Warning warning) {
  switch (warning) {
    case Warning::kBusyWait:
      return "busy_wait";
    case Warning::kUnvirtualisedWait:
      return "unvirtualised_wait";
    case Warning::kSocketTimeout:
      return "socket_timeout";
    case Warning::kIoUring:
      return "io_uring";
    case Warning::kStaticBinary:
      return "static_binary";
    case Warning::kCount:
      break;
  }
  return "?";
}

std::string to_json(const SessionState& state) {
  JsonWriter json;
  json.begin_object().field("schema", 1);
  json.field("clock", word_for(state.mode)).field("guard", word_for(state.guard));
  json.field("virtual_ns", state.now.ns()).field("host_ns", state.host_elapsed.ns());
  json.field("advances", state.advances).field("looks", state.looks);
  json.field("advances_per_s", static_cast<std::int64_t>(state.advances_per_s));
  json.field("blocked_by", word_for(state.blocker));
  write_busy(json, state);
  write_members(json, state);
  write_waiting(json, state);
  write_killed(json, state);
  json.key("holders").begin_array();
  for (const std::string& holder : state.holders) json.value(holder);
  json.end_array();
  write_warnings(json, state);
  write_audit(json, state);
  json.field("trace_failure", state.trace_failure);
  json.field("ended_because", state.ended_because).field("stalled", state.stalled);
  json.field("ended_members", state.ended_members).end_object();
  return json.text() + "\n";
}

std::string stall_report(const SessionState& state) {
  std::string text = "warpserve: the session has stalled at " + in_seconds(state.now.ns()) +
                     ": every thread sleeps and " + word_for(state.blocker) + ".\n";
  for (const std::string& holder : state.holders) text += "  " + holder + " holds the time\n";
  for (const std::string& line : state.roll_calls) text += "  " + line + "\n";
  for (const MemberState& member : state.members) {
    text += member.remote ? "  remote member " : "  process ";
    text += std::to_string(member.id) + " " + member.name + "\n";
    for (const ThreadState& thread : member.threads) text += thread_line(thread, state.waiting);
    if (member.remote) text += remote_lines(member, state.waiting);
  }
  if (state.blocker == Blocker::kNoTarget) {
    text += "  To wait for what comes from outside of the session, run with --on-stall=wait.\n";
  }
  return text;
}

}  // namespace warpserve
