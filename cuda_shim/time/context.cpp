#include "cuda_shim/time/context.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

namespace warpserve::gpu {

// The contexts of the process, for threads that end: their default streams go with them.
class LiveContexts {
 public:
  static LiveContexts& get() {
    // Never destroyed: threads may end while the process exits.
    static auto& contexts = *new LiveContexts;
    return contexts;
  }

  void add(Context& context) {
    const std::lock_guard lock(mutex_);
    contexts_.insert(&context);
  }
  void remove(Context& context) {
    const std::lock_guard lock(mutex_);
    contexts_.erase(&context);
  }
  void forget_thread(std::uint64_t thread) {
    const std::lock_guard lock(mutex_);
    for (Context* context : contexts_) context->forget_thread(thread);
  }

 private:
  std::mutex mutex_;
  std::set<Context*> contexts_;
};

namespace {

std::atomic<std::uint64_t> next_thread_number{1};

// A thread that has used a default stream of its own.
struct StreamThread {
  const std::uint64_t number = next_thread_number.fetch_add(1);
  ~StreamThread() { LiveContexts::get().forget_thread(number); }
};

}  // namespace

Context::Context(const Machine& machine, int device, SessionClock& clock)
    : machine_(machine),
      device_(device),
      clock_(clock),
      host_to_device_(std::make_shared<CopyEngine>()),
      device_to_host_(std::make_shared<CopyEngine>()),
      device_to_device_(std::make_shared<CopyEngine>()),
      host_functions_(std::make_shared<HostFunctions>(clock)),
      legacy_(std::make_unique<Stream>(*this, Stream::Kind::kLegacyDefault, StreamOptions())) {
  LiveContexts::get().add(*this);
}

Context::~Context() {
  LiveContexts::get().remove(*this);
}

std::shared_ptr<Stream> Context::create_stream(StreamOptions options) {
  return std::make_shared<Stream>(*this, Stream::Kind::kCreated, options);
}

std::shared_ptr<Event> Context::create_event(EventOptions options,
                                             std::shared_ptr<EventMirror> mirror) {
  return std::make_shared<Event>(clock_, options, std::move(mirror));
}

Stream& Context::per_thread_stream() {
  thread_local const StreamThread thread;
  {
    const std::lock_guard lock(mutex_);
    if (const auto own = per_thread_.find(thread.number); own != per_thread_.end()) {
      return *own->second;
    }
  }
  auto stream = std::make_unique<Stream>(*this, Stream::Kind::kPerThreadDefault, StreamOptions());
  const std::lock_guard lock(mutex_);
  return *per_thread_.emplace(thread.number, std::move(stream)).first->second;
}

void Context::forget_thread(std::uint64_t thread) {
  std::unique_ptr<Stream> stream;
  const std::lock_guard lock(mutex_);
  const auto own = per_thread_.find(thread);
  if (own == per_thread_.end()) return;
  stream = std::move(own->second);
  per_thread_.erase(own);
}

Status Context::synchronize() {
  if (HostFunctions::running_in_this_thread()) return Status::kNotPermitted;
  if (invalidate_captures(*this, false)) return Status::kCaptureUnsupported;
  return await_work();
}

Status Context::await_work() {
  if (HostFunctions::running_in_this_thread()) return Status::kNotPermitted;
  std::vector<Completion> ends;
  {
    const std::lock_guard lock(mutex_);
    ends.push_back(retired_);
    for (const Stream* stream : streams_) ends.push_back(stream->tail_);
  }
  VirtualTime last;
  for (const Completion& end : ends) last = std::max(last, end.await_known());
  clock_.wait_until(last);
  return Status::kOk;
}

CopyWork Context::copy_work(CopyDirection direction, std::uint64_t bytes) const {
  const GpuKind& gpu = machine_.gpu();
  switch (direction) {
    case CopyDirection::kHostToDevice:
      return {host_to_device_, transfer_time(bytes, gpu.host_copy_bandwidth_bytes_per_s)};
    case CopyDirection::kDeviceToHost:
      return {device_to_host_, transfer_time(bytes, gpu.host_copy_bandwidth_bytes_per_s)};
    case CopyDirection::kDeviceToDevice:
      // Every byte is read and written.
      return {device_to_device_, transfer_time(2 * bytes, gpu.memory_bandwidth_bytes_per_s)};
  }
  __builtin_unreachable();
}

CopyWork Context::peer_copy_work(int to_device, std::uint64_t bytes) const {
  const Link& link = machine_.link(device_, to_device);
  return {device_to_device_, transfer_time(bytes, link.bandwidth_bytes_per_s)};
}

FillWork Context::fill_work(std::uint64_t bytes) const {
  return {transfer_time(bytes, machine_.gpu().memory_bandwidth_bytes_per_s)};
}

HostWork Context::host_work(std::function<void()> function) const {
  return {host_functions_, std::move(function)};
}

Completion Context::ready(const Stream& stream) const {
  if (stream.kind() == Stream::Kind::kLegacyDefault) {
    return latest(stream.tail_, all_blocking_work());
  }
  return stream.blocking() ? latest(stream.tail_, legacy_->tail_) : stream.tail_;
}

Completion Context::all_blocking_work() const {
  Completion end = retired_blocking_;
  for (const Stream* stream : streams_) {
    if (stream->blocking()) end = latest(end, stream->tail_);
  }
  return end;
}

void Context::add(Stream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(&stream);
}

void Context::remove(Stream& stream) {
  const std::lock_guard lock(mutex_);
  std::erase(streams_, &stream);
  retired_ = latest(retired_, stream.tail_);
  if (stream.blocking()) retired_blocking_ = latest(retired_blocking_, stream.tail_);
}

}  // namespace warpserve::gpu
