// What cuGetProcAddress and cudaGetDriverEntryPoint answer.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace warpserve::cuda_shim {

// One form of a driver function. Versions are as in CUDA_VERSION: 12040 is 12.4.
struct DriverEntry {
  std::string_view name;
  int since;
  void* function;
  // The form that uses the calling thread's default stream, or null where there is none.
  void* per_thread;
};

// All forms, in order of name and version. Defined by generated code.
std::span<const DriverEntry> driver_entries();

// The first version of the driver whose functions have per-thread forms.
inline constexpr int kPerThreadSince = 7000;

struct DriverLookup {
  enum class Status { kFound, kNoSuchName, kVersionTooOld };  // In the order of CUDA's own values.
  Status status;
  void* function;
};

// The newest form of `name` that a program built for `version` knows.
inline DriverLookup find_driver_entry(std::string_view name, int version, bool per_thread) {
  const auto forms = std::ranges::equal_range(driver_entries(), name, {}, &DriverEntry::name);
  if (forms.empty()) return {DriverLookup::Status::kNoSuchName, nullptr};
  const DriverEntry* newest = nullptr;
  for (const DriverEntry& form : forms) {
    if (form.since <= version) newest = &form;
  }
  if (newest == nullptr) return {DriverLookup::Status::kVersionTooOld, nullptr};
  const bool own_stream = per_thread && newest->per_thread != nullptr && version >= kPerThreadSince;
  return {DriverLookup::Status::kFound, own_stream ? newest->per_thread : newest->function};
}

}  // namespace warpserve::cuda_shim
