#include "timekeeper/server/options.hpp"

#include <getopt.h>

#include <charconv>
#include <string_view>

#include "timekeeper/server/errors.hpp"

namespace warpserve {

namespace {

enum Flag : int {
  kFolder = 1,
  kClock,
  kGuard,
  kEpochNs,
  kAudit,
  kOnStall,
  kStallGraceMs,
  kSlots,
  kSpinLimit,
  kSpinQuantumNs,
  kTrace,
  kSummary,
  kZmqLibrary,
  kListen,
  kAdvertisedHost,
  kReadyFd,
};

constexpr option kFlags[] = {
    {"folder", required_argument, nullptr, kFolder},
    {"clock", required_argument, nullptr, kClock},
    {"guard", required_argument, nullptr, kGuard},
    {"epoch-ns", required_argument, nullptr, kEpochNs},
    {"audit", no_argument, nullptr, kAudit},
    {"on-stall", required_argument, nullptr, kOnStall},
    {"stall-grace-ms", required_argument, nullptr, kStallGraceMs},
    {"slots", required_argument, nullptr, kSlots},
    {"spin-limit", required_argument, nullptr, kSpinLimit},
    {"spin-quantum-ns", required_argument, nullptr, kSpinQuantumNs},
    {"trace", required_argument, nullptr, kTrace},
    {"summary", required_argument, nullptr, kSummary},
    {"zmq-library", required_argument, nullptr, kZmqLibrary},
    {"listen", required_argument, nullptr, kListen},
    {"advertised-host", required_argument, nullptr, kAdvertisedHost},
    {"ready-fd", required_argument, nullptr, kReadyFd},
    {nullptr, 0, nullptr, 0},
};

template <class Integer>
Integer integer_between(const char* flag, std::string_view text, Integer low, Integer high) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    throw UsageError(std::string(flag) + " takes a whole number from " + std::to_string(low) +
                     " to " + std::to_string(high) + ", not '" + std::string(text) + "'");
  }
  return value;
}

[[noreturn]] void unknown_word(const char* flag, std::string_view word, const char* choices) {
  throw UsageError(std::string(flag) + " is one of " + choices + ", not '" + std::string(word) +
                   "'");
}

ClockMode clock_mode(std::string_view word) {
  if (word == "exact") return ClockMode::kExact;
  if (word == "live") return ClockMode::kLive;
  if (word == "sleep") return ClockMode::kSleep;
  unknown_word("--clock", word, "exact, live, sleep");
}

GuardKind guard_kind(std::string_view word) {
  if (word == "settle") return GuardKind::kSettle;
  if (word == "barrier") return GuardKind::kBarrier;
  unknown_word("--guard", word, "settle, barrier");
}

OnStall on_stall(std::string_view word) {
  if (word == "fail") return OnStall::kFail;
  if (word == "wait") return OnStall::kWait;
  unknown_word("--on-stall", word, "fail, wait");
}

void apply(Options& options, int flag) {
  constexpr std::int64_t kMaxNs = std::int64_t{1} << 62;
  const char* value = optarg;
  switch (flag) {
    case kFolder:
      options.folder = value;
      break;
    case kClock:
      options.mode = clock_mode(value);
      break;
    case kGuard:
      options.guard = guard_kind(value);
      break;
    case kEpochNs:
      options.realtime_epoch_ns = integer_between<std::int64_t>("--epoch-ns", value, 0, kMaxNs);
      break;
    case kAudit:
      options.audit = true;
      break;
    case kOnStall:
      options.on_stall = on_stall(value);
      break;
    case kStallGraceMs:
      options.stall_grace = HostDuration::from_ms(
          integer_between<std::int64_t>("--stall-grace-ms", value, 1, 86'400'000));
      break;
    case kSlots:
      options.slot_capacity = integer_between<std::uint32_t>("--slots", value, 64, 1u << 24);
      break;
    case kSpinLimit:
      options.spin_limit = integer_between<std::uint32_t>("--spin-limit", value, 100, 1u << 30);
      break;
    case kSpinQuantumNs:
      options.spin_quantum = VirtualDuration::from_ns(
          integer_between<std::int64_t>("--spin-quantum-ns", value, 1, kMaxNs));
      break;
    case kTrace:
      options.trace_file = value;
      break;
    case kSummary:
      options.summary_file = value;
      break;
    case kZmqLibrary:
      options.zmq_library = value;
      break;
    case kListen:
      options.listen = value;
      break;
    case kAdvertisedHost:
      options.advertised_host = value;
      break;
    case kReadyFd:
      options.ready_fd = integer_between<int>("--ready-fd", value, 0, 1 << 20);
      break;
    default:
      throw UsageError("run by `warpserve`; see `warpserve run --help`");
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  opterr = 0;
  for (int flag = 0; (flag = getopt_long(argc, argv, "", kFlags, nullptr)) != -1;) {
    apply(options, flag);
  }
  if (optind < argc) throw UsageError(std::string("unexpected argument ") + argv[optind]);
  if (options.folder.empty()) throw UsageError("--folder is needed");
  if (options.listen && options.zmq_library.empty()) {
    throw UsageError("--listen needs --zmq-library");
  }
  return options;
}

}  // namespace warpserve
