#include "cuda_shim/entry/shared_events.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <climits>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda_shim/entry/error.hpp"
#include "cuda_shim/memory/file_descriptor.hpp"
#include "cuda_shim/memory/process.hpp"

namespace warpserve::gpu {
namespace {

constexpr std::size_t kSlots = 4096;
// So many records of an event can be pending at a time: what waits for an older one goes on.
constexpr std::size_t kRecords = 16;
constexpr std::int64_t kPending = std::numeric_limits<std::int64_t>::min();

struct Record {
  std::atomic<std::uint64_t> number;
  std::atomic<std::int64_t> end_ns;
};

// Zeros: free, and never recorded.
struct Slot {
  std::atomic<std::uint64_t> generation;  // who uses it; 0: nobody
  std::atomic<std::uint64_t> given;       // numbers of records, counted from 1
  std::atomic<std::uint64_t> latest;
  std::atomic<std::uint32_t> changes;  // a futex: the ends that have become known
  std::array<Record, kRecords> records;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

using Slots = std::array<Slot, kSlots>;

std::shared_ptr<Slots> map_slots(int file) {
  void* const at = mmap(nullptr, sizeof(Slots), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(at != MAP_FAILED, Error::kOutOfMemory);
  return {static_cast<Slots*>(at), [](Slots* slots) { munmap(slots, sizeof(Slots)); }};
}

// The file of this process.
class OwnSlots {
 public:
  // Never destroyed: events may be destroyed while the process exits.
  static OwnSlots& get() {
    static auto& instance = *std::make_unique<OwnSlots>().release();
    return instance;
  }

  OwnSlots() : file_(memfd_create("warpserve-gpu-events", MFD_CLOEXEC)) {
    require(ftruncate(file_.get(), sizeof(Slots)) == 0, Error::kOutOfMemory);
    slots_ = map_slots(file_.get());
  }

  int file() const { return file_.get(); }
  const std::shared_ptr<Slots>& slots() const { return slots_; }

  std::size_t take() {
    const std::lock_guard lock(mutex_);
    std::size_t index = used_;
    if (free_.empty()) {
      require(used_ < kSlots, Error::kOutOfMemory);
      ++used_;
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Slot& slot = (*slots_)[index];
    slot.latest = 0;
    slot.generation = ++generations_;
    return index;
  }

  void give(std::size_t index) {
    const std::lock_guard lock(mutex_);
    (*slots_)[index].generation = 0;
    free_.push_back(index);
  }

 private:
  FileDescriptor file_;
  std::shared_ptr<Slots> slots_;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::vector<std::size_t> free_;
  std::uint64_t generations_ = 0;
};

struct HandleContents {
  static constexpr std::uint32_t kMagic = 0x45505257;
  std::uint32_t magic = kMagic;
  std::int32_t device = -1;
  std::uint32_t pid = 0;
  std::int32_t file = -1;
  std::uint64_t pid_start = 0;  // so that a pid that is used again is no mistake
  std::uint64_t slot = 0;
  std::uint64_t generation = 0;
  std::array<std::uint64_t, 3> reserved = {};
};
static_assert(sizeof(HandleContents) == sizeof(IpcEventHandle));

// Nothing while it is pending. What was overwritten since is long over.
std::optional<VirtualTime> end_of(const Record& record, std::uint64_t number) {
  const std::int64_t end_ns = record.end_ns;
  if (record.number != number) return VirtualTime();
  if (end_ns == kPending) return std::nullopt;
  return VirtualTime::from_ns(end_ns);
}

void wake_all(Slot& slot) {
  ++slot.changes;
  syscall(SYS_futex, &slot.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// In a thread of its own: another process makes it known.
Completion await_elsewhere(std::shared_ptr<Slots> slots, std::size_t index, std::uint64_t number) {
  const CompletionSource end;
  std::thread([slots = std::move(slots), index, number, end] {
    Slot& slot = (*slots)[index];
    while (true) {
      const std::uint32_t changes = slot.changes;
      if (const auto instant = end_of(slot.records[number % kRecords], number)) {
        end.resolve(*instant);
        return;
      }
      syscall(SYS_futex, &slot.changes, FUTEX_WAIT, changes, nullptr, nullptr, 0);
    }
  }).detach();
  return end.completion();
}

class MappedEvent final : public SharedEvent {
 public:
  MappedEvent(std::shared_ptr<Slots> slots, const HandleContents& contents, bool own)
      : slots_(std::move(slots)), contents_(contents), own_(own) {}
  MappedEvent(const MappedEvent&) = delete;
  MappedEvent& operator=(const MappedEvent&) = delete;
  ~MappedEvent() override {
    if (own_) OwnSlots::get().give(contents_.slot);
  }

  IpcEventHandle handle() const override { return std::bit_cast<IpcEventHandle>(contents_); }
  int physical_device() const override { return contents_.device; }

  void set(const Completion& completion) override {
    const std::uint64_t number = ++slot().given;
    Record& record = slot().records[number % kRecords];
    record.end_ns = kPending;
    record.number = number;
    slot().latest = number;
    completion.when_known([slots = slots_, index = contents_.slot, number](VirtualTime instant) {
      Slot& known = (*slots)[index];
      Record& written = known.records[number % kRecords];
      if (written.number != number) return;
      written.end_ns = instant.ns();
      wake_all(known);
    });
    const std::lock_guard lock(mutex_);
    own_number_ = number;
    own_completion_ = completion;
  }

  Completion completion() override {
    const std::uint64_t number = slot().latest;
    if (number == 0) return {};
    if (const auto instant = end_of(slot().records[number % kRecords], number)) {
      return Completion::at(*instant);
    }
    const std::lock_guard lock(mutex_);
    if (number != own_number_) {
      own_number_ = number;
      own_completion_ = await_elsewhere(slots_, contents_.slot, number);
    }
    return own_completion_;
  }

 private:
  Slot& slot() const { return (*slots_)[contents_.slot]; }

  const std::shared_ptr<Slots> slots_;
  const HandleContents contents_;
  const bool own_;
  std::mutex mutex_;
  // What is known here of the record that is pending.
  std::uint64_t own_number_ = 0;
  Completion own_completion_;
};

}  // namespace

std::shared_ptr<SharedEvent> make_shared_event(int physical_device) {
  OwnSlots& own = OwnSlots::get();
  const std::size_t slot = own.take();
  const auto pid = static_cast<std::uint32_t>(getpid());
  const HandleContents contents{.device = physical_device,
                                .pid = pid,
                                .file = own.file(),
                                .pid_start = process_start(pid).value_or(0),
                                .slot = slot,
                                .generation = (*own.slots())[slot].generation};
  return std::make_shared<MappedEvent>(own.slots(), contents, true);
}

std::shared_ptr<SharedEvent> open_shared_event(const IpcEventHandle& handle) {
  const auto contents = std::bit_cast<HandleContents>(handle);
  require(contents.magic == HandleContents::kMagic && contents.slot < kSlots,
          Error::kInvalidHandle);
  const std::string path =
      "/proc/" + std::to_string(contents.pid) + "/fd/" + std::to_string(contents.file);
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  require(file.valid() && process_start(contents.pid) == contents.pid_start, Error::kInvalidHandle);
  std::shared_ptr<Slots> slots = map_slots(file.get());
  require((*slots)[contents.slot].generation == contents.generation, Error::kInvalidHandle);
  return std::make_shared<MappedEvent>(std::move(slots), contents, false);
}

}  // namespace warpserve::gpu
