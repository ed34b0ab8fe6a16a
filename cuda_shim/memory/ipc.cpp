#include "cuda_shim/memory/ipc.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <bit>
#include <mutex>
#include <string>

#include "cuda_shim/memory/process.hpp"
#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {
namespace {

// What an IpcHandle holds.
struct HandleContents {
  static constexpr std::uint16_t kMagic = 0x5750;
  std::uint16_t magic = kMagic;
  Residency residency = Residency::kControl;
  std::uint8_t reserved = 0;
  std::int32_t device = kNoDevice;
  std::uint32_t pid = 0;
  std::int32_t fd = -1;           // of the maker, which keeps it as long as it lives
  std::uint64_t pid_start = 0;    // so that a pid that is used again is no mistake
  std::uint64_t number = 0;       // of the allocation
  std::uint64_t slot_offset = 0;  // in the file, of the slot that says that it still exists
  std::uint64_t offset = 0;       // in the file, of the allocation
  std::uint64_t bytes = 0;
  std::uint64_t reserved_bytes = 0;
};
static_assert(sizeof(HandleContents) == sizeof(IpcHandle));

// The maker's memory file. Invalid where the maker, or the allocation, is gone.
FileDescriptor open_file(const HandleContents& handle) {
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  const bool as_made = file.valid() && process_start(handle.pid) == handle.pid_start &&
                       ExportBoard::is_announced(file.get(), handle.slot_offset, handle.number);
  return as_made ? std::move(file) : FileDescriptor();
}

}  // namespace

Result<IpcHandle> Ipc::get_handle(Address address) {
  const std::lock_guard lock(state_.mutex);
  const Allocation* const found = state_.directory.find(address);
  if (found == nullptr || found->kind != MemoryKind::kDevice) return MemoryStatus::kInvalidPointer;
  DeviceSpace& space = state_.device(found->device).space;
  const auto slot_offset = space.board_of(found->base).announce(found->number);
  if (!slot_offset) return MemoryStatus::kOutOfMemory;
  const FileRange range = space.file_range(found->base);
  const auto pid = static_cast<std::uint32_t>(getpid());
  return std::bit_cast<IpcHandle>(HandleContents{.residency = found->residency,
                                                 .device = found->device,
                                                 .pid = pid,
                                                 .fd = range.fd,
                                                 .pid_start = process_start(pid).value_or(0),
                                                 .number = found->number,
                                                 .slot_offset = *slot_offset,
                                                 .offset = range.offset,
                                                 .bytes = found->bytes});
}

Result<Address> Ipc::open(const IpcHandle& handle) {
  const auto contents = std::bit_cast<HandleContents>(handle);
  if (contents.magic != HandleContents::kMagic) return MemoryStatus::kInvalidHandle;
  if (contents.pid == static_cast<std::uint32_t>(getpid())) return MemoryStatus::kSameProcess;
  const std::lock_guard lock(state_.mutex);
  if (!state_.has_device(contents.device)) return MemoryStatus::kInvalidDevice;
  const Key key{contents.pid, contents.number};
  const FileDescriptor file = open_file(contents);
  if (!file.valid()) return MemoryStatus::kInvalidHandle;
  if (const auto open = opened_.find(key); open != opened_.end()) {
    ++imports_.at(open->second).uses;
    return open->second;
  }

  DeviceSpace& space = state_.device(contents.device).space;
  const std::uint64_t in_file = round_down(contents.offset, space.block_bytes());
  const std::uint64_t in_block = contents.offset - in_file;
  Import import{.key = key, .device = contents.device, .residency = contents.residency};
  import.range_bytes = round_up(in_block + contents.bytes, space.block_bytes());
  import.range = space.take_addresses(import.range_bytes);
  if (import.range == 0) return MemoryStatus::kOutOfMemory;
  if (import.residency == Residency::kControl &&
      !map_file(import.range, import.range_bytes, file.get(), in_file, PROT_READ | PROT_WRITE)) {
    space.give_addresses(import.range, import.range_bytes);
    return MemoryStatus::kOutOfMemory;
  }
  const Address address = import.range + in_block;
  state_.directory.add(address, contents.bytes, MemoryKind::kImported, contents.device,
                       contents.residency);
  imports_.emplace(address, import);
  opened_.emplace(key, address);
  return address;
}

MemoryStatus Ipc::close(Address address) {
  const std::lock_guard lock(state_.mutex);
  const auto found = imports_.find(address);
  if (found == imports_.end()) return MemoryStatus::kInvalidPointer;
  if (--found->second.uses == 0) close_one(found);
  return MemoryStatus::kOk;
}

void Ipc::close_one(std::map<Address, Import>::iterator import) {
  const Import& record = import->second;
  if (record.residency == Residency::kControl) map_nothing(record.range, record.range_bytes);
  state_.device(record.device).space.give_addresses(record.range, record.range_bytes);
  state_.directory.remove(state_.directory.find_base(import->first, MemoryKind::kImported));
  opened_.erase(record.key);
  imports_.erase(import);
}

void Ipc::reset(int device) {
  for (auto it = imports_.begin(); it != imports_.end();) {
    const auto import = it++;
    if (import->second.device == device) close_one(import);
  }
}

}  // namespace warpserve::gpu
