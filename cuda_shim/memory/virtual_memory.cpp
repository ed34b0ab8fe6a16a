#include "cuda_shim/memory/virtual_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>

#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {
namespace {

// More than any host can have addresses for.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 46;

// At the end of the memory file of exportable memory, one page long: what the file is.
struct ExportRecord {
  static constexpr std::uint64_t kMagic = 0x504d454d50525457;  // "WTRPMEMP"
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  std::int32_t device = kNoDevice;
  Residency residency = Residency::kControl;
};

int protection_of(Access access) {
  switch (access) {
    case Access::kNone:
      return PROT_NONE;
    case Access::kRead:
      return PROT_READ;
    case Access::kReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  __builtin_unreachable();
}

}  // namespace

struct VirtualMemory::Physical {
  // `of_device` kNoDevice: of the host.
  Physical(State& state, int of_device, PhysicalId known_as, std::uint64_t size,
           Residency of_contents)
      : account(state.account),
        space(state.device(std::max(of_device, 0)).space),
        at_host(of_device == kNoDevice),
        id(known_as),
        bytes(size),
        residency(of_contents) {}
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical() {
    if (addresses != 0) {
      if (residency == Residency::kControl) punch_hole(space.file_range(addresses), bytes);
      space.give_addresses(addresses, bytes);
    }
    if (!counted) return;
    if (at_host) {
      account.give_back(kHostColumn, bytes);
    } else {
      space.give_back(bytes);
    }
  }

  int device() const { return at_host ? kNoDevice : space.device(); }

  FileRange file_range() const {
    return file.valid() ? FileRange{file.get(), 0} : space.file_range(addresses);
  }

  Account& account;
  DeviceSpace& space;
  const bool at_host;
  const PhysicalId id;
  const std::uint64_t bytes;
  const Residency residency;
  bool exportable = false;
  bool counted = false;
  // The contents: a file of its own where others may import it; else a part of the device's file,
  // held by the addresses that belong to that part.
  FileDescriptor file;
  Address addresses = 0;
};

VirtualMemory::VirtualMemory(State& state) : state_(state) {}

VirtualMemory::~VirtualMemory() = default;

std::uint64_t VirtualMemory::granularity_bytes() const {
  return std::max(state_.machine.gpu().allocation_granularity_bytes, kPageBytes);
}

Result<Address> VirtualMemory::reserve(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t granularity = granularity_bytes();
  if (bytes == 0 || bytes % granularity != 0 || (alignment & (alignment - 1)) != 0) {
    return MemoryStatus::kInvalidValue;
  }
  if (bytes > kMostBytes || alignment > kMostBytes) return MemoryStatus::kOutOfMemory;
  const std::lock_guard lock(state_.mutex);
  const Address address = state_.virtual_addresses.take(bytes, std::max(alignment, granularity));
  if (address == 0) return MemoryStatus::kOutOfMemory;
  reservations_.emplace(address, bytes);
  return address;
}

MemoryStatus VirtualMemory::free_reservation(Address address, std::uint64_t bytes) {
  const std::lock_guard lock(state_.mutex);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes ||
      state_.directory.overlaps(address, bytes)) {
    return MemoryStatus::kInvalidValue;
  }
  reservations_.erase(found);
  state_.virtual_addresses.give(address, bytes);
  return MemoryStatus::kOk;
}

Result<PhysicalId> VirtualMemory::create(int device, std::uint64_t bytes, bool exportable) {
  const std::lock_guard lock(state_.mutex);
  const bool at_host = device == kNoDevice;
  if (!at_host && !state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  if (bytes == 0 || bytes % granularity_bytes() != 0) return MemoryStatus::kInvalidValue;
  const auto physical =
      std::make_shared<Physical>(state_, device, PhysicalId{next_++}, bytes,
                                 at_host ? Residency::kControl : state_.residency_for(bytes));
  physical->counted =
      at_host ? state_.account.charge(kHostColumn, bytes, state_.options.host_memory_bytes)
              : physical->space.charge(bytes);
  if (!physical->counted) return MemoryStatus::kOutOfMemory;
  physical->exportable = exportable;
  if (exportable || at_host) {
    physical->file = FileDescriptor(memfd_create("warpserve-gpu-physical", MFD_CLOEXEC));
    const ExportRecord record{.bytes = bytes, .device = device, .residency = physical->residency};
    const int fd = physical->file.get();
    if (ftruncate(fd, static_cast<off_t>(bytes + kPageBytes)) != 0 ||
        pwrite(fd, &record, sizeof record, static_cast<off_t>(bytes)) != sizeof record) {
      return MemoryStatus::kOutOfMemory;
    }
  } else {
    physical->addresses = physical->space.take_addresses(bytes);
    if (physical->addresses == 0) return MemoryStatus::kOutOfMemory;
  }
  handles_.emplace(physical->id, Handle{physical, 1});
  return physical->id;
}

MemoryStatus VirtualMemory::release(PhysicalId physical) {
  const std::lock_guard lock(state_.mutex);
  const auto found = handles_.find(physical);
  if (found == handles_.end()) return MemoryStatus::kInvalidHandle;
  if (--found->second.uses == 0) handles_.erase(found);
  return MemoryStatus::kOk;
}

Result<PhysicalId> VirtualMemory::retain(Address address) {
  const std::lock_guard lock(state_.mutex);
  const Allocation* const found = state_.directory.find(address);
  if (found == nullptr || found->kind != MemoryKind::kMapped) return MemoryStatus::kInvalidPointer;
  const auto& physical = mappings_.at(found->base).physical;
  Handle& handle = handles_[physical->id];
  handle.physical = physical;
  ++handle.uses;
  return physical->id;
}

Result<PhysicalInfo> VirtualMemory::info(PhysicalId physical) const {
  const std::shared_lock lock(state_.mutex);
  const auto found = handles_.find(physical);
  if (found == handles_.end()) return MemoryStatus::kInvalidHandle;
  const Physical& memory = *found->second.physical;
  return PhysicalInfo{memory.device(), memory.bytes, memory.exportable, memory.residency};
}

MemoryStatus VirtualMemory::map(Address address, std::uint64_t bytes, PhysicalId physical) {
  const std::lock_guard lock(state_.mutex);
  const auto found = handles_.find(physical);
  if (found == handles_.end()) return MemoryStatus::kInvalidHandle;
  const auto& memory = found->second.physical;
  if (bytes != memory->bytes || address % granularity_bytes() != 0 ||
      !in_one_reservation(address, bytes) || state_.directory.overlaps(address, bytes)) {
    return MemoryStatus::kInvalidValue;
  }
  Allocation& allocation = state_.directory.add(address, bytes, MemoryKind::kMapped,
                                                memory->device(), memory->residency);
  allocation.owner = physical.value;
  allocation.accessible = false;
  mappings_.emplace(address, Mapping{memory, {}});
  return MemoryStatus::kOk;
}

MemoryStatus VirtualMemory::unmap(Address address, std::uint64_t bytes) {
  const std::lock_guard lock(state_.mutex);
  if (!whole_mappings(address, bytes)) return MemoryStatus::kInvalidValue;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first < address + bytes;) {
    unmap_one(it++);
  }
  return MemoryStatus::kOk;
}

MemoryStatus VirtualMemory::set_access(Address address, std::uint64_t bytes, int device,
                                       Access access) {
  const std::lock_guard lock(state_.mutex);
  if (device != kNoDevice && !state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  if (!whole_mappings(address, bytes)) return MemoryStatus::kInvalidValue;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first < address + bytes;
       ++it) {
    auto& [physical, by_device] = it->second;
    if (device == kNoDevice && !physical->at_host) return MemoryStatus::kInvalidValue;
    by_device[device] = access;
    const Access widest =
        std::max_element(by_device.begin(), by_device.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->second;
    state_.directory.find_base(it->first, MemoryKind::kMapped)->second.accessible =
        widest != Access::kNone;
    if (physical->residency == Residency::kCompute) continue;
    const FileRange range = physical->file_range();
    if (!map_file(it->first, physical->bytes, range.fd, range.offset, protection_of(widest))) {
      return MemoryStatus::kOutOfMemory;
    }
  }
  return MemoryStatus::kOk;
}

Result<Access> VirtualMemory::access(Address address, int device) const {
  const std::shared_lock lock(state_.mutex);
  if (device != kNoDevice && !state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  const Allocation* const found = state_.directory.find(address);
  if (found == nullptr || found->kind != MemoryKind::kMapped) return MemoryStatus::kInvalidValue;
  const auto& by_device = mappings_.at(found->base).access;
  const auto own = by_device.find(device);
  return own == by_device.end() ? Access::kNone : own->second;
}

Result<int> VirtualMemory::export_descriptor(PhysicalId physical) const {
  const std::shared_lock lock(state_.mutex);
  const auto found = handles_.find(physical);
  if (found == handles_.end()) return MemoryStatus::kInvalidHandle;
  const Physical& memory = *found->second.physical;
  if (!memory.exportable) return MemoryStatus::kInvalidValue;
  const int fd = fcntl(memory.file.get(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return MemoryStatus::kOutOfMemory;
  return fd;
}

Result<PhysicalId> VirtualMemory::import_descriptor(int descriptor) {
  FileDescriptor file(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  struct stat size{};
  ExportRecord record;
  if (!file.valid() || fstat(file.get(), &size) != 0) return MemoryStatus::kInvalidValue;
  const off_t record_offset = size.st_size - static_cast<off_t>(kPageBytes);
  if (record_offset <= 0 ||
      pread(file.get(), &record, sizeof record, record_offset) != sizeof record ||
      record.magic != ExportRecord::kMagic ||
      record.bytes != static_cast<std::uint64_t>(record_offset)) {
    return MemoryStatus::kInvalidValue;
  }
  const std::lock_guard lock(state_.mutex);
  if (record.device != kNoDevice && !state_.has_device(record.device)) {
    return MemoryStatus::kInvalidDevice;
  }
  const auto physical = std::make_shared<Physical>(state_, record.device, PhysicalId{next_++},
                                                   record.bytes, record.residency);
  physical->exportable = true;
  physical->file = std::move(file);
  handles_.emplace(physical->id, Handle{physical, 1});
  return physical->id;
}

bool VirtualMemory::whole_mappings(Address address, std::uint64_t bytes) const {
  if (bytes == 0 || bytes > kMostBytes) return false;
  Address at = address;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first == at; ++it) {
    at += it->second.physical->bytes;
    if (at >= address + bytes) return at == address + bytes;
  }
  return false;
}

bool VirtualMemory::in_one_reservation(Address address, std::uint64_t bytes) const {
  const auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return false;
  const auto& [base, size] = *std::prev(after);
  return address - base < size && size - (address - base) >= bytes;
}

void VirtualMemory::unmap_one(std::map<Address, Mapping>::iterator mapping) {
  const Physical& physical = *mapping->second.physical;
  if (physical.residency == Residency::kControl) map_nothing(mapping->first, physical.bytes);
  state_.directory.remove(state_.directory.find_base(mapping->first, MemoryKind::kMapped));
  mappings_.erase(mapping);
}

void VirtualMemory::reset(int device) {
  for (auto it = mappings_.begin(); it != mappings_.end();) {
    const auto mapping = it++;
    if (mapping->second.physical->device() == device) unmap_one(mapping);
  }
  std::erase_if(handles_,
                [device](const auto& entry) { return entry.second.physical->device() == device; });
}

}  // namespace warpserve::gpu
