// The whole contract between the Timekeeper and the processes on its host: two shared mappings.
//
//   ClockPage  one page, written by the Timekeeper only, mapped read-only by members: the clock.
//   Board      slots that members write and the Timekeeper fires: who waits until when.
//
// Raise kContractVersion whenever a field moves or changes its meaning. A member with another
// version is refused at the handshake on the control socket, before it maps anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "timekeeper/core/types.hpp"
#include "timekeeper/shared/sync.hpp"

namespace warpserve {

inline constexpr std::uint32_t kContractVersion = 3;
inline constexpr std::uint64_t kClockMagic = 0x4b434f4c43505257;  // "WRPCLOCK"
inline constexpr std::uint64_t kBoardMagic = 0x4452414f42505257;  // "WRPBOARD"

// --- The clock ----------------------------------------------------------------------------------

// One atomic word is the time, so a reader can see no torn value and needs no sequence lock; all
// else is written once, before the first member maps the page.
struct alignas(4096) ClockPage {
  std::uint64_t magic;
  std::uint32_t contract_version;
  ClockMode mode;
  GuardKind guard;
  std::uint32_t spin_limit;        // idle clock reads in one instant that count as a busy-wait
  std::int64_t spin_quantum_ns;    // virtual time that a busy-wait is charged per turn
  std::int64_t realtime_epoch_ns;  // CLOCK_REALTIME at virtual time 0
  std::int64_t monotonic_base_ns;  // CLOCK_MONOTONIC and CLOCK_BOOTTIME at virtual time 0

  // kExact: the virtual time in ns. kLive, kSleep: virtual time minus host CLOCK_MONOTONIC, in ns.
  // Written by the Timekeeper only; never decreases.
  alignas(64) SharedAtomic<std::int64_t> value_ns;
  // 1 once the session has ended: waits return, and nothing more will be fired.
  SharedAtomic<std::uint32_t> ended;
};
static_assert(sizeof(ClockPage) == 4096);
static_assert(offsetof(ClockPage, value_ns) == 64);

// --- The board ----------------------------------------------------------------------------------

// What the owner of a slot is.
enum class SlotKind : std::uint32_t {
  kWait = 1,    // a timed wait of unmodified code (an observer's)
  kActor = 2,   // an explicit actor: the barrier waits for it
  kHold = 3,    // time may not advance while the slot is kWaiting; its target is not used
  kAsks = 4,    // a hold for as long as somebody outside of the session is asked for an answer
  kSettle = 5,  // a wait for the end of the present instant: after all others that are due at it
};

// kFree -> kIdle (claimed) -> kWaiting (armed) -> kFired | kIdle (cancelled) -> ... -> kFree.
// A slot is claimed by putting one's pid where there was 0, before anything else, so that the slot
// of a process killed at any moment can be found. Only the Timekeeper makes kWaiting into kFired,
// and frees the slots of the dead. All else is done by the owning thread. See
// timekeeper/shared/slot.hpp for the transitions.
enum class SlotPhase : std::uint32_t { kFree = 0, kIdle = 1, kWaiting = 2, kFired = 3 };

inline constexpr std::size_t kSlotLabelBytes = 24;

// `Sync` is NativeSync, or the model checker's.
template <class Sync>
struct alignas(64) BasicSlot {
  template <class T>
  using Atomic = typename Sync::template Atomic<T>;

  // Phase in the low 3 bits, generation above them; the futex word of the wait. The generation
  // grows with each arming, so that a late firing cannot hit a later wait.
  Atomic<std::uint32_t> state;
  Atomic<std::uint32_t> kind;      // SlotKind
  Atomic<std::int64_t> target_ns;  // VirtualTime; written before kWaiting
  Atomic<std::uint32_t> pid;       // owner; 0: nobody's, may be claimed
  Atomic<std::uint32_t> tid;
  Atomic<std::uint32_t> rings_fd;  // 1: firing also writes to the eventfd given at the control
                                   // socket for this slot (a wait in poll)
  std::uint32_t reserved;
  char label[kSlotLabelBytes];  // what it waits in, for `warpserve status`; owner only
};
using Slot = BasicSlot<NativeSync>;
static_assert(sizeof(Slot) == 64);

// Values of Board::listening besides a thread id.
inline constexpr std::uint32_t kListeningToNobody = 0;
inline constexpr std::uint32_t kListeningToAll = 0xffffffff;

// Counted warnings (T12): things that members met and that can make results wrong.
enum class Warning : std::uint32_t {
  kBusyWait = 0,           // a thread polled the clock until it was charged spin_quantum_ns
  kUnvirtualisedWait = 1,  // a timed wait that runs on host time
  kSocketTimeout = 2,      // SO_RCVTIMEO or SO_SNDTIMEO
  kIoUring = 3,            // io_uring_setup was refused
  kStaticBinary = 4,       // a program was started that cannot load our library
  kCount = 5,
};

template <class Sync>
struct alignas(4096) BasicBoard {
  template <class T>
  using Atomic = typename Sync::template Atomic<T>;

  std::uint64_t magic;
  std::uint32_t contract_version;
  std::uint32_t capacity;            // slots that follow
  Atomic<std::uint32_t> high_water;  // slots at or beyond this index were never claimed

  // The doorbell. The Timekeeper sleeps on `rings` and says in `listening` whose going to sleep it
  // waits for; that thread adds one to `rings` and wakes it just before it blocks.
  alignas(64) Atomic<std::uint32_t> listening;
  Atomic<std::uint32_t> rings;

  alignas(64) Atomic<std::uint32_t> warnings[static_cast<std::size_t>(Warning::kCount)];

  BasicSlot<Sync>* slots() { return reinterpret_cast<BasicSlot<Sync>*>(this + 1); }
  const BasicSlot<Sync>* slots() const {
    return reinterpret_cast<const BasicSlot<Sync>*>(this + 1);
  }
};
using Board = BasicBoard<NativeSync>;
static_assert(sizeof(Board) == 4096);

inline constexpr std::size_t board_bytes(std::uint32_t capacity) {
  return sizeof(Board) + capacity * sizeof(Slot);
}

// --- The control socket -------------------------------------------------------------------------
// A SOCK_SEQPACKET socket at <session folder>/control.sock, one connection a member process, one
// packet a message, native byte order. The Timekeeper knows the peer from SO_PEERCRED. The
// connection is close-on-exec: its end means that the process died or became another program.

inline constexpr std::uint32_t kControlMagic = 0x4c545257;  // "WRTL"
inline constexpr std::size_t kTokenBytes = 32;
inline constexpr std::size_t kControlTextBytes = 160;

enum class ControlType : std::uint32_t {
  // A process becomes a member. Reply: kWelcome with two descriptors (clock page read-only,
  // board), or kRefused with the reason in `text`.
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  // A member gives the eventfd (ancillary data) that firing slot `value` writes to. Reply: kDone.
  kWakeFd = 4,
  kDone = 5,
  // The launcher has the Timekeeper start a member. Four descriptors: a memfd with the working
  // directory, argc, the arguments and the environment (each NUL-terminated), then stdin, stdout,
  // stderr. Reply: kSpawned with the pid in `value`, or kRefused. When it ends: kExited with the
  // pid in `value` and the wait status in `status`; and where `value` was 1, the session ends, at
  // the virtual time that it is then.
  kSpawn = 6,
  kSpawned = 7,
  kExited = 8,
  // Anybody of the same user with the token. Reply: kStatusReply with a memfd that holds JSON.
  kStatus = 9,
  kStatusReply = 10,
  // Ends the session: members are terminated, the folder is removed.
  kEnd = 11,
  // The launcher ends members itself from now on: their deaths are told to nobody. Reply: kDone.
  kEnding = 12,
};

struct ControlMessage {
  std::uint32_t magic;
  std::uint32_t contract_version;
  ControlType type;
  std::uint32_t value;
  std::int32_t status;
  unsigned char token[kTokenBytes];
  char text[kControlTextBytes];  // NUL-terminated
};

// Environment of a member.
inline constexpr char kEnvSession[] = "WARPSERVE_SESSION";  // the session's folder
// Files in the session's folder (0700, files 0600).
inline constexpr char kTokenFile[] = "token";  // kTokenBytes raw bytes
inline constexpr char kControlSocket[] = "control.sock";

}  // namespace warpserve
