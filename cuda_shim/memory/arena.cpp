#include "cuda_shim/memory/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

namespace warpserve::gpu {
namespace {

// Ranges of the process, for signal handlers: no locks, and entries are only ever replaced whole.
struct Reservation {
  std::atomic<Address> base{0};
  std::atomic<Address> end{0};
};
constexpr std::size_t kMostArenas = 1024;
std::array<Reservation, kMostArenas> reservations;
std::atomic<std::size_t> high_water{0};  // reservations from here on were never used

bool announce(Address base, Address end) {
  for (std::size_t i = 0; i < kMostArenas; ++i) {
    Address free = 0;
    if (!reservations[i].base.compare_exchange_strong(free, base)) continue;
    reservations[i].end.store(end);
    std::size_t known = high_water.load();
    while (known <= i && !high_water.compare_exchange_weak(known, i + 1)) {
    }
    return true;
  }
  return false;
}

void withdraw(Address base) {
  for (Reservation& reservation : reservations) {
    if (reservation.base.load() != base) continue;
    reservation.end.store(0);
    reservation.base.store(0);
  }
}

}  // namespace

bool is_reserved_address(Address address) {
  const auto end = reservations.begin() + static_cast<std::ptrdiff_t>(high_water.load());
  return std::any_of(reservations.begin(), end, [address](const Reservation& range) {
    return address >= range.base.load() && address < range.end.load();
  });
}

bool map_file(Address address, std::uint64_t bytes, int fd, std::uint64_t offset, int protection) {
  void* const at = mmap(pointer(address), bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                        fd, static_cast<off_t>(offset));
  if (at != MAP_FAILED) return true;
  std::fprintf(stderr,
               "warpserve: the host can't map %llu bytes of control memory (%s). Free memory, or "
               "raise vm.max_map_count.\n",
               static_cast<unsigned long long>(bytes), std::strerror(errno));
  return false;
}

void map_nothing(Address address, std::uint64_t bytes) {
  mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
       -1, 0);
}

std::unique_ptr<Arena> Arena::reserve(int device, std::uint64_t bytes) {
  const std::string name = "warpserve-gpu-" + std::to_string(device);
  FileDescriptor file(memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file.valid() ||
      ftruncate(file.get(), static_cast<off_t>(bytes + ExportBoard::kBytes)) != 0) {
    return nullptr;
  }
  void* const at =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  if (!announce(address_of(at), address_of(at) + bytes)) {
    munmap(at, bytes);
    return nullptr;
  }
  return std::unique_ptr<Arena>(new Arena(address_of(at), bytes, std::move(file)));
}

Arena::~Arena() {
  withdraw(base_);
  munmap(pointer(base_), bytes_);
}

Address AddressSpace::take(std::uint64_t bytes, std::uint64_t alignment) {
  for (const auto& arena : arenas_) {
    if (const auto address = arena->ranges().take(bytes, alignment)) return *address;
  }
  auto arena = Arena::reserve(device_, std::max(arena_bytes_, bytes + alignment));
  if (!arena) return 0;
  const Address address = arena->ranges().take(bytes, alignment).value();
  arenas_.push_back(std::move(arena));
  return address;
}

void AddressSpace::give(Address address, std::uint64_t bytes) {
  arena_of(address)->ranges().give(address, bytes);
}

Arena* AddressSpace::arena_of(Address address) const {
  for (const auto& arena : arenas_) {
    if (arena->contains(address)) return arena.get();
  }
  return nullptr;
}

}  // namespace warpserve::gpu
