#include "cuda_shim/entry/lookup.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "cuda_shim/api/unsupported.hpp"
#include "cuda_shim/device/profile.hpp"

namespace warpserve::gpu {
namespace {

std::string uuid_text(const void* id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const unsigned byte = static_cast<const unsigned char*>(id)[i];
    text += {kDigits[byte >> 4], kDigits[byte & 0xf]};
  }
  return text;
}

}  // namespace

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

Error refuse_export_table(const char* library, const char* name, const void** table, const void* id,
                          const void* caller) {
  require(table != nullptr && id != nullptr);
  *table = nullptr;
  const std::string advice =
      "It asked for the undocumented table " + uuid_text(id) +
      ". A static CUDA runtime does that where its symbols are stripped, so that it can't be led "
      "to the virtual one: keep the symbols, or link with -cudart shared";
  constexpr auto kNotFound = static_cast<int>(Error::kNotFound);
  return Error{static_cast<std::uint32_t>(
      cuda_shim::refused({library, name, advice.c_str(), caller}, kNotFound))};
}

int driver_version() {
  return session_machine().gpu().cuda_driver_version;
}

}  // namespace warpserve::gpu
