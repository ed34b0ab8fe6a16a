#include "cuda_shim/entry/value_waits.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "cuda_shim/time/context.hpp"

namespace warpserve::gpu {
namespace {

constexpr std::uint32_t kFlushRemoteWrites = 1U << 30;
constexpr std::uint32_t kNoMemoryBarrier = 1;  // of writes
// How long after the CPU has written a value a stream may still wait for it: at first, and at most.
constexpr VirtualDuration kFirstLook = VirtualDuration::from_ns(10'000);
constexpr VirtualDuration kRarestLook = VirtualDuration::from_ns(1'000'000);

// All waits of the process that have begun, or will at an instant that is known.
class ValueWaits {
 public:
  // Never destroyed: streams may wait while the process exits.
  static ValueWaits& get() {
    static auto& instance = *std::make_unique<ValueWaits>().release();
    return instance;
  }

  void add(VirtualTime begin, std::function<bool()> holds, const CompletionSource& end) {
    std::unique_lock lock(mutex_);
    waits_.push_back({begin, std::move(holds), end});
    if (!started_) std::thread([this] { look(); }).detach();
    started_ = true;
    look_now(lock);
  }

  void value_was_written() {
    std::unique_lock lock(mutex_);
    look_now(lock);
  }

 private:
  struct Wait {
    VirtualTime begin;
    std::function<bool()> holds;
    CompletionSource end;
  };

  // In this thread: what holds from now on does so when the call returns.
  void look_now(std::unique_lock<std::mutex>& lock) {
    resolve_those_that_hold(lock);
    pause_ = kFirstLook;
    changed_.notify_all();
  }

  void look() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (resolve_those_that_hold(lock)) continue;
      if (waits_.empty()) {
        changed_.wait(lock);
      } else if (clock_.wait_until(changed_, lock, next_look())) {
        pause_ = std::min(pause_ + pause_, kRarestLook);
      }
    }
  }

  bool resolve_those_that_hold(std::unique_lock<std::mutex>& lock) {
    const VirtualTime now = clock_.now();
    std::list<Wait> over;
    for (auto it = waits_.begin(); it != waits_.end();) {
      const auto wait = it++;
      if (wait->begin <= now && wait->holds()) over.splice(over.end(), waits_, wait);
    }
    if (over.empty()) return false;
    lock.unlock();
    for (const Wait& wait : over) wait.end.resolve(now);
    lock.lock();
    return true;
  }

  VirtualTime next_look() {
    const VirtualTime now = clock_.now();
    VirtualTime next = VirtualTime::max();
    for (const Wait& wait : waits_) {
      next = std::min(next, wait.begin > now ? wait.begin : now.saturating_add(pause_));
    }
    return next;
  }

  SessionClock& clock_ = process_clock();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::list<Wait> waits_;
  VirtualDuration pause_ = kFirstLook;
};

// Whether the CPU can look at it.
bool is_readable(const PointerInfo& info) {
  return is_host(info.kind) || info.residency == Residency::kControl;
}

void check_word(Address address, std::uint64_t bytes) {
  require(address != 0 && address % bytes == 0);
  require(is_readable(value_of(process_memory().query(address))), Error::kNotSupported);
}

// Memory that is gone holds whatever is waited for.
template <class Word>
bool holds(Address address, Word value, Comparison comparison) {
  const Result<PointerInfo> info = process_memory().query(address);
  if (!info.ok() || !is_readable(info.value())) return true;
  const Word found = std::atomic_ref(*static_cast<Word*>(pointer(address))).load();
  switch (comparison) {
    case Comparison::kGreaterOrEqual:
      return static_cast<std::make_signed_t<Word>>(found - value) >= 0;
    case Comparison::kEqual:
      return found == value;
    case Comparison::kAnd:
      return (found & value) != 0;
    case Comparison::kNor:
      return static_cast<Word>(~(found | value)) != 0;
  }
  __builtin_unreachable();
}

}  // namespace

template <class Word>
Status wait_for_value(Stream& stream, Address address, Word value, std::uint32_t flags) {
  check_word(address, sizeof(Word));
  const std::uint32_t comparison = flags & ~kFlushRemoteWrites;
  require(comparison <= static_cast<std::uint32_t>(Comparison::kNor));
  return stream.submit(PendingWork{[condition = std::function<bool()>([=] {
                                      return holds(address, value, Comparison{comparison});
                                    })](const Completion& ready, const CompletionSource& end) {
    ready.when_known([=](VirtualTime begin) { ValueWaits::get().add(begin, condition, end); });
  }});
}

template <class Word>
Status write_value(Stream& stream, Address address, Word value, std::uint32_t flags) {
  check_word(address, sizeof(Word));
  require((flags & ~kNoMemoryBarrier) == 0);
  return stream.submit(stream.context().host_work([=] {
    if (!is_readable(value_of(process_memory().query(address)))) return;
    std::atomic_ref(*static_cast<Word*>(pointer(address))).store(value);
    ValueWaits::get().value_was_written();
  }));
}

template Status wait_for_value(Stream&, Address, std::uint32_t, std::uint32_t);
template Status wait_for_value(Stream&, Address, std::uint64_t, std::uint32_t);
template Status write_value(Stream&, Address, std::uint32_t, std::uint32_t);
template Status write_value(Stream&, Address, std::uint64_t, std::uint32_t);

}  // namespace warpserve::gpu
