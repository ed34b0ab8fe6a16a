#include "cuda_shim/entry/lookup.hpp"

#include <algorithm>

#include "cuda_shim/device/profile.hpp"

namespace warpserve::gpu {

void find_driver_function(const char* name, int version, std::uint64_t flags, void** function,
                          std::uint32_t* status) {
  require(name != nullptr && function != nullptr);
  require((flags & ~(kLegacyStreamFlag | kPerThreadStreamFlag)) == 0);
  const bool per_thread = (flags & kPerThreadStreamFlag) != 0;
  const auto found =
      cuda_shim::find_driver_entry(name, std::min(version, driver_version()), per_thread);
  *function = found.function;
  if (status != nullptr) {
    *status = static_cast<std::uint32_t>(found.status);
  } else {
    require(found.function != nullptr, Error::kNotFound);
  }
}

int driver_version() {
  return session_machine().gpu().cuda_driver_version;
}

}  // namespace warpserve::gpu
