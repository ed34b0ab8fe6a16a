// A stateless model checker for protocols written against a `Sync` policy (timekeeper/shared/
// sync.hpp). Each party is a fiber; each operation on a ModelSync atomic or futex is a scheduling
// point. `explore` runs the scenario again and again until every schedule has been taken: depth
// first, replaying the choices up to the last one that has an alternative.
//
// What it covers: all interleavings of the operations, which is all there is, since the protocol's
// atomics are sequentially consistent; the death of a mortal party (kill -9) in place of any of its
// operations and while it is parked; a host deadline that passes, at any moment of a wait that has
// one. Schedules that differ only in the order of operations on different words are taken once
// (sleep sets: Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", LNCS
// 1032, chapter 5), which loses no violation. `Bounds::preemptions`, for scenarios that are too
// large, limits how often a party that could go on is interrupted (Musuvathi and Qadeer, "Iterative
// context bounding for systematic testing of multithreaded programs", PLDI 2007).
//
// What it finds: a `require` that does not hold, `Sync::broken`, and a party parked or waiting for
// another forever (a lost wake-up).
//
// A party's body must be deterministic, share nothing but ModelSync words with another (what the
// final check reads may be plain) and, as a dying fiber's stack is not unwound, own nothing.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace model {

struct Bounds {
  std::optional<unsigned> preemptions;    // nothing: exhaustive
  unsigned deaths = 1;                    // of mortal parties, in one execution
  std::uint64_t executions = 20'000'000;  // more is an error: the scenario is too large
};

struct Report {
  std::uint64_t executions = 0;
  std::string violation;  // with the schedule that leads to it; empty: none in any execution

  bool holds() const { return violation.empty(); }
};

// What a party does next.
struct Operation {
  const char* name;
  const void* word = nullptr;
  bool writes = false;
};

enum class Mortality { kImmortal, kMortal };
enum class Ended { kFinished, kDied };

// The choices of one execution, and the way to the next.
class Choices {
 public:
  std::size_t choose(std::size_t count) {
    if (depth_ == taken_.size()) taken_.push_back({0, count});
    if (taken_[depth_].count != count) throw std::logic_error("the scenario is not deterministic");
    return taken_[depth_++].index;
  }

  // False: all have been taken.
  bool next() {
    depth_ = 0;
    while (!taken_.empty() && taken_.back().index + 1 == taken_.back().count) taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().index;
    return true;
  }

 private:
  struct Choice {
    std::size_t index;
    std::size_t count;
  };
  std::vector<Choice> taken_;
  std::size_t depth_ = 0;
};

inline constexpr std::size_t kMaxParties = 4;
inline constexpr std::size_t kStackBytes = 64 * 1024;
using Stacks = std::array<std::unique_ptr<char[]>, kMaxParties>;

// One run of the scenario under one schedule.
class Execution {
 public:
  Execution(const Bounds& bounds, Choices& choices, Stacks& stacks)
      : bounds_(bounds), choices_(choices), stacks_(stacks) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // The scenario's: adds a party; returns what `await_end` wants.
  std::size_t party(std::string name, std::function<void()> body,
                    Mortality mortality = Mortality::kImmortal) {
    if (parties_.size() == kMaxParties) throw std::logic_error("too many parties");
    auto& added = *parties_.emplace_back(std::make_unique<Party>());
    added.name = std::move(name);
    added.body = std::move(body);
    added.mortal = mortality == Mortality::kMortal;
    return parties_.size() - 1;
  }

  // The scenario's: runs when all parties have ended.
  void finally(std::function<void()> check) { finally_ = std::move(check); }

  // Returns the violation, or an empty text.
  std::string run() {
    running_ = this;
    for (std::size_t i = 0; i < parties_.size(); ++i) prepare(i);
    while (violation_.empty() && step()) {
    }
    current_ = kNobody;
    if (violation_.empty() && !redundant_ && finally_) finally_();
    running_ = nullptr;
    return violation_;
  }

  static Execution* running() { return running_; }

  // --- for the parties --------------------------------------------------------------------------

  // Another party, or the end of this one, may come before the operation that follows.
  void scheduling_point(const Operation& operation) {
    if (current_ == kNobody) return;
    parties_[current_]->next = operation;
    yield();
  }

  // Returns what the futex call returns.
  int park(const void* word, bool has_deadline) {
    auto& self = *parties_[current_];
    self.state = has_deadline ? State::kParkedWithDeadline : State::kParked;
    self.next = {"deadline passes", word, true};
    self.wait_result = ETIMEDOUT;
    yield();
    return self.wait_result;
  }

  void wake(const void* word, int count) {
    for (auto& other : parties_) {
      if (!is_parked(*other) || other->next.word != word) continue;
      if (count-- == 0) throw std::logic_error("a wake-up that must choose among waiters");
      other->state = State::kReady;
      other->next = {"woken"};
      other->wait_result = 0;
    }
  }

  Ended await_end(std::size_t party) {
    auto& self = *parties_[current_];
    self.state = State::kAwaitingEnd;
    self.awaited = party;
    self.next = {"sees the end of the other"};
    yield();
    self.state = State::kReady;
    return parties_[party]->state == State::kDead ? Ended::kDied : Ended::kFinished;
  }

  void violate(std::string_view what) {
    if (!violation_.empty()) return;
    violation_ = std::string(what) + "; schedule:";
    for (const auto& [party, operation] : schedule_) {
      violation_ += "\n    " + parties_[party]->name + ": " + operation;
    }
    if (current_ != kNobody) yield();
  }

 private:
  enum class State {
    kReady,
    kParked,
    kParkedWithDeadline,
    kAwaitingEnd,
    kFinished,
    kDead,
  };

  struct Party {
    std::string name;
    std::function<void()> body;
    bool mortal = false;
    State state = State::kReady;
    Operation next = {"starts"};
    int wait_result = 0;
    std::size_t awaited = 0;
    ucontext_t context{};
  };

  // The next operation of a party, or its death instead.
  struct Transition {
    std::size_t party;
    bool dies;
    bool operator==(const Transition&) const = default;
  };

  static constexpr std::size_t kNobody = kMaxParties;

  static bool is_parked(const Party& party) {
    return party.state == State::kParked || party.state == State::kParkedWithDeadline;
  }
  static bool has_ended(const Party& party) {
    return party.state == State::kFinished || party.state == State::kDead;
  }
  bool can_run(const Party& party) const {
    return party.state == State::kReady || party.state == State::kParkedWithDeadline ||
           (party.state == State::kAwaitingEnd && has_ended(*parties_[party.awaited]));
  }

  void prepare(std::size_t index) {
    auto& stack = stacks_[index];
    if (!stack) stack = std::make_unique<char[]>(kStackBytes);
    ucontext_t& context = parties_[index]->context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, &Execution::enter, 0);
  }

  static void enter() {
    Execution& execution = *running_;
    Party& self = *execution.parties_[execution.current_];
    self.body();
    self.state = State::kFinished;
    execution.yield();
  }

  void yield() { swapcontext(&parties_[current_]->context, &scheduler_); }

  // One choice of who goes on or dies. False: everybody has ended, nobody can go on, or whatever
  // may follow has been explored in another order.
  bool step() {
    const std::vector<Transition> enabled = this->enabled();
    if (enabled.empty()) {
      report_deadlock();
      return false;
    }
    std::vector<Transition> options;
    std::ranges::copy_if(enabled, std::back_inserter(options),
                         [this](const Transition& t) { return !asleep(t); });
    redundant_ = options.empty();
    if (redundant_) return false;
    const std::size_t choice = choices_.choose(options.size());
    put_to_sleep({options.begin(), options.begin() + static_cast<std::ptrdiff_t>(choice)},
                 options[choice]);
    take(options[choice]);
    return true;
  }

  void take(const Transition& transition) {
    Party& party = *parties_[transition.party];
    schedule_.emplace_back(transition.party, transition.dies ? "dies" : party.next.name);
    if (transition.dies) {
      party.state = State::kDead;
      ++deaths_;
      return;
    }
    if (is_preemption(transition.party)) ++preemptions_;
    previous_ = current_ = transition.party;
    if (party.state == State::kParkedWithDeadline) party.state = State::kReady;
    swapcontext(&scheduler_, &party.context);
    current_ = kNobody;
  }

  bool asleep(const Transition& transition) const {
    return std::ranges::find(sleeping_, transition) != sleeping_.end();
  }

  // What was explored before `chosen` at this point need not be explored after it, until something
  // happens that it depends on. (Bounded explorations take every schedule: the equivalent one that
  // was explored may have been beyond the bound.)
  void put_to_sleep(const std::vector<Transition>& explored, const Transition& chosen) {
    if (bounds_.preemptions) return;
    sleeping_.insert(sleeping_.end(), explored.begin(), explored.end());
    std::erase_if(sleeping_, [&](const Transition& t) { return depend(t, chosen); });
  }

  bool depend(const Transition& a, const Transition& b) const {
    if (a.party == b.party || (a.dies && b.dies)) return true;
    if (awaits(a, b.party) || awaits(b, a.party)) return true;
    if (a.dies || b.dies) return false;
    const Operation& x = parties_[a.party]->next;
    const Operation& y = parties_[b.party]->next;
    return x.word != nullptr && x.word == y.word && (x.writes || y.writes);
  }

  bool awaits(const Transition& transition, std::size_t party) const {
    const Party& self = *parties_[transition.party];
    return self.state == State::kAwaitingEnd && self.awaited == party;
  }

  bool is_preemption(std::size_t next) const {
    return previous_ != kNobody && previous_ != next && parties_[previous_]->state == State::kReady;
  }

  // Empty where nobody can go on: that a parked party may be killed is no way out.
  std::vector<Transition> enabled() const {
    const bool exhausted = bounds_.preemptions && preemptions_ == *bounds_.preemptions;
    std::vector<Transition> enabled;
    for (std::size_t i = 0; i < parties_.size(); ++i) {
      if (can_run(*parties_[i]) && !(exhausted && is_preemption(i))) enabled.push_back({i, false});
    }
    if (enabled.empty() || deaths_ == bounds_.deaths) return enabled;
    for (std::size_t i = 0; i < parties_.size(); ++i) {
      if (parties_[i]->mortal && !has_ended(*parties_[i]) && may_die_now(i)) {
        enabled.push_back({i, true});
      }
    }
    return enabled;
  }

  // Nobody can tell a party that died after its last operation from one that died later before its
  // next, so where no sleep set prunes the equals, it dies early.
  bool may_die_now(std::size_t party) const {
    return !bounds_.preemptions || previous_ == party || previous_ == kNobody;
  }

  void report_deadlock() {
    current_ = kNobody;
    for (const auto& party : parties_) {
      if (!has_ended(*party)) violate(party->name + " waits forever");
    }
  }

  static inline Execution* running_ = nullptr;

  const Bounds& bounds_;
  Choices& choices_;
  Stacks& stacks_;
  std::vector<std::unique_ptr<Party>> parties_;
  std::function<void()> finally_;
  ucontext_t scheduler_{};
  std::size_t current_ = kNobody;
  std::size_t previous_ = kNobody;
  unsigned preemptions_ = 0;
  unsigned deaths_ = 0;
  std::vector<Transition> sleeping_;
  bool redundant_ = false;
  std::vector<std::pair<std::size_t, const char*>> schedule_;
  std::string violation_;
};

// Runs `scenario(execution)`, which adds fresh parties, under every schedule within the bounds, up
// to the first violation.
template <class Scenario>
Report explore(const Bounds& bounds, Scenario scenario) {
  Choices choices;
  Stacks stacks;
  Report report;
  do {
    if (report.executions == bounds.executions) throw std::runtime_error("too many executions");
    Execution execution(bounds, choices, stacks);
    scenario(execution);
    report.violation = execution.run();
    ++report.executions;
  } while (report.holds() && choices.next());
  return report;
}

// A party's or the final check's assertion.
inline void require(bool condition, std::string_view what) {
  if (!condition) Execution::running()->violate(what);
}

inline Ended await_end(std::size_t party) {
  return Execution::running()->await_end(party);
}

// The policy. Outside a party (in the scenario's set-up and final check) its operations are plain.
struct ModelSync {
  template <class T>
  class Atomic {
   public:
    T load() const {
      point({"load", this, false});
      return value_;
    }
    void store(T value) {
      point({"store", this, true});
      value_ = value;
    }
    T exchange(T value) {
      point({"exchange", this, true});
      return std::exchange(value_, value);
    }
    bool compare_exchange(T expected, T desired) {
      point({"compare-exchange", this, true});
      if (value_ != expected) return false;
      value_ = desired;
      return true;
    }
    T fetch_add(T value) {
      point({"fetch-add", this, true});
      return std::exchange(value_, static_cast<T>(value_ + value));
    }

   private:
    friend struct ModelSync;
    T value_{};
  };

  static int wait(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                  const timespec* host_deadline = nullptr) {
    point({"futex wait", &word, true});
    if (word.value_ != expected) return EAGAIN;
    return Execution::running()->park(&word, host_deadline != nullptr);
  }

  static void wake(const Atomic<std::uint32_t>& word, int count) {
    point({"futex wake", &word, true});
    Execution::running()->wake(&word, count);
  }

  // Ends the party, which the exploration does not resume after a violation.
  static void broken(std::string_view what) { Execution::running()->violate(what); }

 private:
  static void point(const Operation& operation) {
    if (Execution::running() != nullptr) Execution::running()->scheduling_point(operation);
  }
};

}  // namespace model
