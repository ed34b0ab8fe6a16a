#include "cuda_shim/entry/process.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "cuda_shim/memory/memory.hpp"

namespace warpserve::gpu {
namespace {

std::atomic<bool> forked_while_in_use{false};
std::atomic<bool> driver_initialized{false};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// By index, or by the beginning of a UUID that only one device has.
std::optional<int> physical_device(const Machine& machine, std::string_view name) {
  int index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error == std::errc() && end == name.data() + name.size()) {
    if (index < 0 || index >= machine.device_count()) return std::nullopt;
    return index;
  }
  std::optional<int> found;
  for (int i = 0; name.starts_with("GPU-") && i < machine.device_count(); ++i) {
    if (!machine.device(i).uuid.starts_with(name)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

std::uint64_t next_context_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1);
}

Device::Device(const Machine& machine, int ordinal_, int physical_, int count, SessionClock& clock)
    : ordinal(ordinal_),
      physical(physical_),
      time(machine, physical_, clock),
      primary_context(std::make_shared<DriverContext>(
          DriverContext{.device = ordinal_, .primary = true, .id = next_context_id()})),
      peer_access(static_cast<std::size_t>(count)) {}

void Device::open() {
  if (open_) return;
  require(process_memory().open_context(physical) == MemoryStatus::kOk, Error::kOutOfMemory);
  open_ = true;
}

void Device::retain_for_runtime() {
  if (runtime_retains_) return;
  open();
  const std::lock_guard lock(mutex);
  if (!runtime_retains_.exchange(true)) ++primary_references;
}

void Device::release_primary() {
  const std::lock_guard lock(mutex);
  require(primary_references > 0, Error::kInvalidContext);
  if (--primary_references == 0) runtime_retains_ = false;
}

void Device::close() {
  const std::lock_guard lock(mutex);
  std::fill(peer_access.begin(), peer_access.end(), false);
  limits.clear();
  primary_references = 0;
  runtime_retains_ = false;
  open_ = false;
}

std::vector<int> visible_devices(const Machine& machine, const char* variable) {
  std::vector<int> devices;
  if (variable == nullptr) {
    for (int i = 0; i < machine.device_count(); ++i) devices.push_back(i);
    return devices;
  }
  std::string_view rest = variable;
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto device = physical_device(machine, trimmed(rest.substr(0, comma)));
    if (!device || std::ranges::find(devices, *device) != devices.end()) return devices;
    devices.push_back(*device);
    if (comma == std::string_view::npos) return devices;
    rest.remove_prefix(comma + 1);
  }
}

Process::Process() : machine_(session_machine()) {
  const auto visible = visible_devices(machine_, std::getenv("CUDA_VISIBLE_DEVICES"));
  const int count = static_cast<int>(visible.size());
  for (int i = 0; i < count; ++i) {
    devices_.push_back(std::make_unique<Device>(machine_, i, visible[static_cast<std::size_t>(i)],
                                                count, process_clock()));
  }
  pthread_atfork(nullptr, nullptr, [] { forked_while_in_use = true; });
}

Process& Process::get() {
  // Never destroyed: threads may use the GPUs while the process exits.
  static Process& process = *std::unique_ptr<Process>(new Process).release();
  require(!forked_while_in_use, Error::kNotInitialized);
  return process;
}

void Process::begin_anew() {
  if (!forked_while_in_use) return;
  require(process_memory().begin_anew() == MemoryStatus::kOk, Error::kNotInitialized);
  forked_while_in_use = false;
  for (const auto& device : get().devices_) device->close();
  Thread::get() = {};
}

Device& Process::device(int ordinal) {
  require(!devices_.empty(), Error::kNoDevice);
  require(ordinal >= 0 && ordinal < device_count(), Error::kInvalidDevice);
  return *devices_[static_cast<std::size_t>(ordinal)];
}

int Process::attribute(int number, int ordinal) {
  const auto& attributes = profile(ordinal).attributes;
  const auto found = attributes.find(number);
  require(found != attributes.end());
  return found->second;
}

Thread& Thread::get() {
  // Never destroyed: what the program keeps in thread-local and static objects may use the GPUs in
  // its destructors. Only the contexts are let go.
  union Storage {
    Thread thread{};
    ~Storage() {}
  };
  struct Release {
    Thread& thread;
    ~Release() { std::exchange(thread.contexts, {}); }
  };
  thread_local Storage storage;
  [[maybe_unused]] thread_local const Release release{storage.thread};
  return storage.thread;
}

int Thread::current_device() const {
  return contexts.empty() || contexts.back() == nullptr ? device : contexts.back()->device;
}

void Thread::set_device(Device& chosen) {
  chosen.retain_for_runtime();
  device = chosen.ordinal;
  if (contexts.empty()) contexts.emplace_back();
  contexts.back() = chosen.primary_context;
}

std::shared_ptr<DriverContext> Thread::current_context() const {
  require(!contexts.empty() && contexts.back() != nullptr, Error::kInvalidContext);
  return contexts.back();
}

Device& current_device() {
  Thread& thread = Thread::get();
  Device& device = Process::get().device(thread.current_device());
  const bool has_context = !thread.contexts.empty() && thread.contexts.back() != nullptr;
  if (thread.in_driver_call) {
    require(has_context, Error::kInvalidContext);
    require(device.is_open(), Error::kContextIsDestroyed);
  } else if (!has_context) {
    thread.set_device(device);
  } else if (thread.contexts.back()->primary) {
    device.retain_for_runtime();
  }
  return device;
}

void initialize_driver() {
  require(Process::get().device_count() > 0, Error::kNoDevice);
  mark_driver_initialized();
}

void mark_driver_initialized() {
  driver_initialized.store(true, std::memory_order_relaxed);
}

bool is_driver_initialized() {
  return driver_initialized;
}

}  // namespace warpserve::gpu
