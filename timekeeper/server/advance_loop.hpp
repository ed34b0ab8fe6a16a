// The advance thread: looks whether all sleep, asks the Core how far time may go, publishes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "timekeeper/core/core.hpp"
#include "timekeeper/server/board_link.hpp"
#include "timekeeper/server/events.hpp"
#include "timekeeper/server/options.hpp"
#include "timekeeper/server/process_watch.hpp"
#include "timekeeper/server/session_state.hpp"
#include "timekeeper/server/shared_memory.hpp"
#include "timekeeper/server/trace.hpp"
#include "timekeeper/server/wake_descriptors.hpp"
#include "timekeeper/server/zmq/gateway.hpp"
#include "timekeeper/server/zmq/remote_road.hpp"
#include "timekeeper/shared/slot.hpp"

namespace warpserve {

class AdvanceLoop {
 public:
  // `trace` and `gateway` may be null.
  AdvanceLoop(const Options& options, const SharedMemory& memory, EventQueue& events,
              WakeDescriptors& wake_descriptors, Trace* trace, Gateway* gateway);
  ~AdvanceLoop();
  AdvanceLoop(const AdvanceLoop&) = delete;
  AdvanceLoop& operator=(const AdvanceLoop&) = delete;

  // Returns when the session has ended and no process of it is left.
  void run();

  SessionState state() const;

 private:
  void handle_events();
  void handle(ServerStarted& event);
  void handle(ProcessJoined& event);
  void handle(ProcessLeft& event);
  void handle(ProcessDied& event);
  void handle(StateAsked& event);
  void handle(EndAsked& event);
  void handle(EndingTold& event);
  void handle(MembersEnded& event);

  void turn();
  void wake_the_due();
  void turn_settle();
  void turn_barrier();
  void look();
  bool try_advance(bool settled);
  void audit_advance();
  std::vector<pid_t> roots() const;
  void publish(VirtualTime to);
  timespec host_deadline(HostDuration longest) const;
  void wait_for_thread(std::uint32_t tid);
  void wait_quietly();
  void check_stall(bool settled);
  bool others_can_act() const;
  void count_rate();
  void add_local_state(SessionState& state) const;
  void add_remote_state(SessionState& state) const;
  void begin_end(const std::string& why);
  void release_everybody();

  const Options& options_;
  const SharedMemory& memory_;
  EventQueue& events_;
  Trace* trace_;
  Core core_;
  BoardLink board_link_;
  Gateway* gateway_;
  std::optional<RemoteRoad> remote_;
  ProcessWatch watch_;
  std::map<pid_t, std::string> names_;  // of members, for when they have died
  std::vector<KilledMember> killed_;
  std::set<pid_t> outside_roots_;  // members that are not the Timekeeper's descendants
  DoorbellListener doorbell_;

  Look last_look_;
  std::uint32_t suspect_;  // whose going to sleep is waited for
  HostDuration backoff_;
  std::optional<HostTime> quiet_since_;

  HostTime started_;
  HostTime rate_since_;
  std::uint64_t advances_at_rate_ = 0;
  double advances_per_s_ = 0;
  std::uint64_t advances_ = 0;
  std::uint64_t looks_ = 0;
  std::uint64_t audits_ = 0;
  std::uint64_t audit_violations_ = 0;
  std::vector<std::string> first_violations_;
  bool is_ending_ = false;  // by the launcher's word
  std::string ended_because_;
  std::optional<VirtualTime> ended_at_;  // what is reported: what follows is up to the host
  bool stalled_ = false;
  std::uint64_t ended_members_ = 0;
  bool over_ = false;
  std::thread ender_;
};

}  // namespace warpserve
