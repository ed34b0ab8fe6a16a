#include "cuda_shim/torch_ops/host_generator.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace warpserve::torch_ops {
namespace {

// The GPU's generators count in groups of four.
constexpr std::uint64_t kOffsetStep = 4;

// splitmix64's finaliser: neighbouring states give unrelated seeds.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

at::Generator host_generator(const c10::IValue& given, c10::Device device) {
  at::Generator generator =
      given.isNone() ? at::globalContext().defaultGenerator(device) : given.toGenerator();
  if (generator.device().is_cpu()) return generator;
  const std::lock_guard lock(generator.mutex());
  const std::uint64_t offset = generator.get_offset();
  generator.set_offset(offset + kOffsetStep);
  return at::detail::createCPUGenerator(mixed(generator.current_seed() + mixed(offset)));
}

at::Generator captured_generator() {
  static std::atomic<std::uint64_t> count = 0;
  return at::detail::createCPUGenerator(mixed(~++count));
}

}  // namespace warpserve::torch_ops
