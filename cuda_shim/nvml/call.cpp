#include "cuda_shim/nvml/call.hpp"

#include <atomic>
#include <charconv>
#include <cstdio>
#include <exception>
#include <string_view>

namespace warpserve::gpu::nvml {
namespace {

std::atomic<int> initializations{0};

std::uint32_t hexadecimal(std::string_view text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

}  // namespace

void initialize() {
  session_machine();
  ++initializations;
}

void shut_down() {
  require(initializations > 0, Code::kUninitialized);
  --initializations;
}

const Machine& machine() {
  require(initializations > 0, Code::kUninitialized);
  return session_machine();
}

int index_of(void* device) {
  const Machine& all = machine();
  for (int i = 0; i < all.device_count(); ++i) {
    if (&all.device(i) == device) return i;
  }
  throw Failure{Code::kInvalidArgument};
}

void* handle_of(int index) {
  require(index >= 0 && index < machine().device_count());
  return const_cast<DeviceProfile*>(&machine().device(index));
}

void copy_text(char* out, std::uint32_t capacity, const std::string& text) {
  require(out != nullptr);
  require(capacity > text.size(), Code::kInsufficientSize);
  std::memcpy(out, text.c_str(), text.size() + 1);
}

Code code_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const ProfileError& error) {
    std::fprintf(stderr, "warpserve: %s\n", error.what());
    return Code::kDriverNotLoaded;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warpserve: %s\n", error.what());
    return Code::kUnknown;
  }
}

// "0000:1B:00.0"
PciInfo pci_info(int index) {
  const Machine& all = machine();
  const std::string& id = all.device(index).pci_bus_id;
  const std::string_view text = id;
  PciInfo info{};
  info.domain = hexadecimal(text.substr(0, 4));
  info.bus = hexadecimal(text.substr(5, 2));
  info.device = hexadecimal(text.substr(8, 2));
  info.pci_device_id = all.gpu().pci_device_id;
  info.pci_subsystem_id = all.gpu().pci_subsystem_id;
  std::snprintf(info.legacy_bus_id, sizeof(info.legacy_bus_id), "%s", id.c_str());
  std::snprintf(info.bus_id, sizeof(info.bus_id), "%08X%s", info.domain, id.c_str() + 4);
  return info;
}

}  // namespace warpserve::gpu::nvml
