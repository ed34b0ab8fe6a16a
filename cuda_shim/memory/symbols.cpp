#include "cuda_shim/memory/symbols.hpp"

#include <algorithm>
#include <mutex>

#include "cuda_shim/memory/memory.hpp"
#include "cuda_shim/memory/state.hpp"

namespace warpserve::gpu {

void Symbols::add(Address key, std::string name, std::uint64_t bytes) {
  const std::lock_guard lock(state_.mutex);
  symbols_.insert_or_assign(key, Symbol{std::move(name), bytes, {}});
}

void Symbols::remove(Address key) {
  const std::lock_guard lock(state_.mutex);
  const auto found = symbols_.find(key);
  if (found == symbols_.end()) return;
  for (const auto& [device, address] : found->second.addresses) {
    memory_.free_any(state_.directory.find_base(address, MemoryKind::kDevice));
  }
  symbols_.erase(found);
}

Result<Address> Symbols::address(Address key, int device) {
  const std::lock_guard lock(state_.mutex);
  if (!state_.has_device(device)) return MemoryStatus::kInvalidDevice;
  const auto found = symbols_.find(key);
  if (found == symbols_.end()) return MemoryStatus::kInvalidPointer;
  auto& [name, bytes, addresses] = found->second;
  if (const auto known = addresses.find(device); known != addresses.end()) return known->second;
  const Result<Address> made = memory_.allocate_locked(device, bytes, Residency::kControl);
  if (made.ok()) addresses.emplace(device, made.value());
  return made;
}

Result<std::uint64_t> Symbols::size(Address key) const {
  const std::shared_lock lock(state_.mutex);
  const auto found = symbols_.find(key);
  if (found == symbols_.end()) return MemoryStatus::kInvalidPointer;
  return found->second.bytes;
}

Result<Address> Symbols::key_of(const std::string& name) const {
  const std::shared_lock lock(state_.mutex);
  const auto found = std::find_if(symbols_.begin(), symbols_.end(),
                                  [&name](const auto& entry) { return entry.second.name == name; });
  if (found == symbols_.end()) return MemoryStatus::kInvalidPointer;
  return found->first;
}

void Symbols::reset(int device) {
  for (auto& [key, symbol] : symbols_) symbol.addresses.erase(device);
}

}  // namespace warpserve::gpu
