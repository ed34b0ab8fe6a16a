#include "cuda_shim/nvml/call.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nvml;

std::uint32_t nvmlSystemGetDriverVersion(char* version, std::uint32_t capacity) {
  return call([&] { nvml::copy_text(version, capacity, machine().gpu().driver_version); });
}

std::uint32_t nvmlSystemGetNVMLVersion(char* version, std::uint32_t capacity) {
  return call([&] { nvml::copy_text(version, capacity, machine().nvml_version()); });
}

std::uint32_t nvmlSystemGetCudaDriverVersion(std::int32_t* version) {
  return call([&] { answer(version, machine().gpu().cuda_driver_version); });
}

std::uint32_t nvmlSystemGetCudaDriverVersion_v2(std::int32_t* version) {
  return call([&] { answer(version, machine().gpu().cuda_driver_version); });
}

std::uint32_t nvmlSystemGetTopologyGpuSet(std::uint32_t, std::uint32_t* count, void** devices) {
  return call([&] {
    require(count != nullptr);
    const auto all = static_cast<std::uint32_t>(machine().device_count());
    for (std::uint32_t i = 0; devices != nullptr && i < std::min(*count, all); ++i)
      devices[i] = handle_of(static_cast<int>(i));
    *count = all;
  });
}
