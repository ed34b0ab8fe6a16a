#include "timekeeper/server/shared_memory.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include <new>

#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/host_clock.hpp"

namespace warpserve {

namespace {
// As after some uptime: programs take a monotonic clock at or near zero for "never" or for a
// far past, and one at the Unix epoch is too large for nanoseconds in a double.
constexpr std::int64_t kMonotonicBaseNs = 1'000'000'000'000;
}  // namespace

SharedMapping::SharedMapping(const char* name, std::size_t bytes)
    : fd_(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
  if (!fd_.valid()) throw os_error("memfd_create");
  if (ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) throw os_error("ftruncate of a memfd");
  if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    throw os_error("F_ADD_SEALS");
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (data_ == MAP_FAILED) throw os_error("mmap of a memfd");
}

SharedMapping::~SharedMapping() {
  munmap(data_, bytes_);
}

void SharedMapping::forbid_further_writers() const {
  if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    throw os_error("F_SEAL_FUTURE_WRITE");
  }
}

VirtualTime virtual_now(const ClockPage& clock) {
  const std::int64_t value = clock.value_ns.load();
  if (clock.mode == ClockMode::kExact) return VirtualTime::from_ns(value);
  return VirtualTime::from_ns(host_now().ns() + value);
}

SharedMemory::SharedMemory(const SharedMemoryOptions& options)
    : clock_("warpserve-clock", sizeof(ClockPage)),
      board_("warpserve-board", board_bytes(options.slot_capacity)),
      slot_capacity_(options.slot_capacity) {
  auto* page = new (clock_.data()) ClockPage{};
  page->magic = kClockMagic;
  page->contract_version = kContractVersion;
  page->mode = options.mode;
  page->guard = options.guard;
  page->spin_limit = options.spin_limit;
  page->spin_quantum_ns = options.spin_quantum_ns;
  page->realtime_epoch_ns = options.realtime_epoch_ns;
  page->monotonic_base_ns = kMonotonicBaseNs;
  if (options.mode != ClockMode::kExact) page->value_ns.store(-host_now().ns());
  clock_.forbid_further_writers();

  // The slots start as the kernel gives them: zero is SlotPhase::kFree, and untouched ones cost
  // no memory.
  auto* board_page = new (board_.data()) Board{};
  board_page->magic = kBoardMagic;
  board_page->contract_version = kContractVersion;
  board_page->capacity = options.slot_capacity;
}

}  // namespace warpserve
