#include "cuda_shim/memory/memory.hpp"

#include <mutex>
#include <utility>

#include "cuda_shim/memory/fatal_access.hpp"
#include "cuda_shim/memory/ranges.hpp"
#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {
namespace {

// The texture alignment of all kinds in the catalogue, to which cudaMallocPitch rounds (assumed).
constexpr std::uint64_t kPitchAlignmentBytes = 512;

}  // namespace

Memory::Memory(const Machine& machine, MemoryOptions options)
    : state_(std::make_unique<State>(machine, std::move(options))),
      pools_(*state_),
      virtual_memory_(*state_),
      ipc_(*state_),
      host_(*state_),
      copies_(*state_),
      symbols_(*state_, *this) {}

Memory::~Memory() {
  withdraw_fatal_access_report(*state_);
}

MemoryStatus Memory::open_context(int device) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_device(device)) return MemoryStatus::kInvalidDevice;
  DeviceState& own = state_->device(device);
  if (own.has_context) return MemoryStatus::kOk;
  if (!own.space.charge(state_->machine.gpu().context_memory_bytes)) {
    return MemoryStatus::kOutOfMemory;
  }
  own.has_context = true;
  return MemoryStatus::kOk;
}

MemoryStatus Memory::reset(int device) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_device(device)) return MemoryStatus::kInvalidDevice;
  symbols_.reset(device);
  virtual_memory_.reset(device);
  ipc_.reset(device);
  for (auto it = state_->directory.begin(); it != state_->directory.end();) {
    const auto allocation = it++;
    const MemoryKind kind = allocation->second.kind;
    const bool ours =
        kind == MemoryKind::kDevice || kind == MemoryKind::kPool || kind == MemoryKind::kManaged;
    if (ours && allocation->second.device == device) free_any(allocation);
  }
  pools_.reset(device);
  DeviceState& own = state_->device(device);
  if (own.has_context) own.space.give_back(state_->machine.gpu().context_memory_bytes);
  own.has_context = false;
  return MemoryStatus::kOk;
}

MemoryStatus Memory::begin_anew() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->directory.empty()) return MemoryStatus::kInvalidValue;
  for (const auto& device : state_->devices) device->has_context = false;
  state_->account.begin_anew();
  return MemoryStatus::kOk;
}

Result<Address> Memory::allocate(int device, std::uint64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_device(device)) return MemoryStatus::kInvalidDevice;
  if (bytes == 0) return Address{0};
  return allocate_locked(device, bytes, state_->residency_for(bytes));
}

Result<Address> Memory::allocate_locked(int device, std::uint64_t bytes, Residency residency) {
  if (bytes > state_->machine.gpu().memory_usable_bytes) return MemoryStatus::kOutOfMemory;
  DeviceState& own = state_->device(device);
  const std::uint64_t block_bytes = own.space.block_bytes();
  const Result<Address> address = bytes < block_bytes
                                      ? own.small(residency).allocate(bytes)
                                      : own.space.acquire(round_up(bytes, block_bytes), residency);
  if (address.ok()) {
    state_->directory.add(address.value(), bytes, MemoryKind::kDevice, device, residency);
  }
  return address;
}

Result<PitchedAllocation> Memory::allocate_pitched(int device, std::uint64_t width_bytes,
                                                   std::uint64_t rows) {
  if (width_bytes == 0 || rows == 0) return MemoryStatus::kInvalidValue;
  const std::uint64_t pitch = round_up(width_bytes, kPitchAlignmentBytes);
  std::uint64_t bytes = 0;
  if (pitch < width_bytes || __builtin_mul_overflow(pitch, rows, &bytes)) {
    return MemoryStatus::kOutOfMemory;
  }
  const Result<Address> address = allocate(device, bytes);
  if (!address.ok()) return address.status();
  return PitchedAllocation{address.value(), pitch};
}

MemoryStatus Memory::free(Address address) {
  if (address == 0) return MemoryStatus::kOk;
  const std::lock_guard lock(state_->mutex);
  const auto allocation = state_->directory.find_base(address, MemoryKind::kDevice,
                                                      MemoryKind::kPool, MemoryKind::kManaged);
  if (allocation == state_->directory.end()) return MemoryStatus::kInvalidPointer;
  free_any(allocation);
  return MemoryStatus::kOk;
}

void Memory::free_any(Directory::Iterator allocation) {
  const Allocation& record = allocation->second;
  switch (record.kind) {
    case MemoryKind::kPool:
      pools_.free_locked(record);
      break;
    case MemoryKind::kManaged:
      host_.free_managed(record);
      break;
    default:
      free_device(record);
  }
  state_->directory.remove(allocation);
}

void Memory::free_device(const Allocation& allocation) {
  DeviceState& own = state_->device(allocation.device);
  own.space.board_of(allocation.base).withdraw(allocation.number);
  const std::uint64_t block_bytes = own.space.block_bytes();
  if (allocation.bytes >= block_bytes) {
    own.space.release(allocation.base, round_up(allocation.bytes, block_bytes),
                      allocation.residency);
    return;
  }
  BlockHeap& heap = own.small(allocation.residency);
  heap.free(allocation.base, allocation.bytes);
  heap.release_unused();
}

MemoryStatus Memory::mark_control(Address address) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->directory.find_base(address, MemoryKind::kDevice);
  if (found == state_->directory.end()) return MemoryStatus::kInvalidPointer;
  Allocation& allocation = found->second;
  if (allocation.residency == Residency::kControl) return MemoryStatus::kOk;
  DeviceSpace& space = state_->device(allocation.device).space;
  // Small ones share blocks with others.
  if (allocation.touched || allocation.bytes < space.block_bytes()) {
    return MemoryStatus::kInvalidValue;
  }
  const MemoryStatus status =
      space.make_control(allocation.base, round_up(allocation.bytes, space.block_bytes()));
  if (status == MemoryStatus::kOk) allocation.residency = Residency::kControl;
  return status;
}

Result<PointerInfo> Memory::query(Address address) const {
  const std::shared_lock lock(state_->mutex);
  const Allocation* const found = state_->directory.find(address);
  if (found == nullptr) {
    if (is_reserved_address(address)) return MemoryStatus::kInvalidPointer;
    return PointerInfo{};
  }
  return PointerInfo{found->kind,      found->device, found->base,  found->bytes,
                     found->residency, found->flags,  found->owner, found->number};
}

Result<Contents> Memory::contents(Address address, std::uint64_t bytes) const {
  const std::shared_lock lock(state_->mutex);
  if (const Result<Range> range = check_range(state_->directory, address, bytes); !range.ok()) {
    return range.status();
  }
  while (bytes > 0) {
    const Piece piece = piece_at(state_->directory, address, bytes);
    if (!piece.real) return Contents::kNone;
    address += piece.bytes;
    bytes -= piece.bytes;
  }
  return Contents::kReal;
}

Result<MemoryInfo> Memory::info(int device) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_device(device)) return MemoryStatus::kInvalidDevice;
  const std::uint64_t total = state_->machine.gpu().memory_usable_bytes;
  return MemoryInfo{total - state_->account.used_bytes(device), total};
}

Result<NvmlMemoryInfo> Memory::nvml_info(int device) const {
  const Result<MemoryInfo> usable = info(device);
  if (!usable.ok()) return usable.status();
  const std::uint64_t total = state_->machine.gpu().memory_total_bytes;
  const auto [free, usable_total] = usable.value();
  return NvmlMemoryInfo{total, total - usable_total, usable_total - free, free};
}

Result<std::vector<ProcessMemory>> Memory::processes(int device) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_device(device)) return MemoryStatus::kInvalidDevice;
  std::vector<ProcessMemory> processes;
  for (const Account::Use& use : state_->account.uses(device)) {
    processes.push_back({use.pid, use.bytes});
  }
  return processes;
}

void Memory::report_fatal_accesses() const {
  install_fatal_access_report(*state_);
}

Memory& process_memory() {
  // Never destroyed: threads may use it while the process exits.
  static Memory& memory = *[] {
    auto made = std::make_unique<Memory>(session_machine(), MemoryOptions::of_process());
    made->report_fatal_accesses();
    return made.release();
  }();
  return memory;
}

}  // namespace warpserve::gpu
