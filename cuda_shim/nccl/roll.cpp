#include "cuda_shim/nccl/roll.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "cuda_shim/memory/file_descriptor.hpp"
#include "cuda_shim/nccl/staging.hpp"
#include "timekeeper/preload/warpserve.h"

namespace warpserve::gpu::nccl {
namespace {

// Null where this process is in no session, or its folder does not take the file.
RollCalls* map_roll_calls() {
  const auto folder =
      reinterpret_cast<decltype(ws_session_folder)*>(dlsym(RTLD_DEFAULT, "ws_session_folder"));
  if (folder == nullptr || *folder() == '\0') return nullptr;
  const std::string path = std::string(folder()) + "/" + kRollCallFile;
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid() || ftruncate(file.get(), sizeof(RollCalls)) != 0) return nullptr;
  // Never destroyed: places lie in it.
  static Mapping& mapping =
      *std::make_unique<Mapping>(file.get(), sizeof(RollCalls), true).release();
  return reinterpret_cast<RollCalls*>(mapping.data());
}

RollCalls* roll_calls() {
  static RollCalls* const calls = map_roll_calls();
  return calls;
}

}  // namespace

std::uint32_t open_roll(int ranks) {
  RollCalls* const calls = roll_calls();
  if (calls == nullptr || static_cast<std::size_t>(ranks) > kRollCallPlaces) return 0;
  for (std::uint32_t i = 0; i < kRollCalls; ++i) {
    if ((*calls)[i].size.compare_exchange(0, static_cast<std::uint32_t>(ranks))) return i + 1;
  }
  return 0;
}

void close_roll(std::uint32_t number) {
  RollCalls* const calls = roll_calls();
  if (calls != nullptr && number != 0) (*calls)[number - 1].size.store(0);
}

RollPlace::RollPlace(std::uint32_t number, int rank) {
  RollCalls* const calls = roll_calls();
  if (calls == nullptr || number == 0) return;
  call_ = &(*calls)[number - 1];
  place_ = &call_->places[static_cast<std::size_t>(rank)];
  place_->peer.store(kNobody);
  come_to(1, "Init");
  place_->pid.store(static_cast<std::uint32_t>(getpid()));
}

void RollPlace::say(const char* what) {
  std::strncpy(place_->step, what, sizeof(place_->step) - 1);
}

void RollPlace::come_to(std::uint64_t step, const char* what) {
  if (place_ == nullptr) return;
  say(what);
  place_->steps.store(static_cast<std::uint32_t>(step));
}

void RollPlace::wait_for(int peer, const char* what) {
  if (place_ == nullptr) return;
  say(what);
  place_->peer.store(peer);
}

void RollPlace::wait_for_nobody() {
  if (place_ != nullptr) place_->peer.store(kNobody);
}

void RollPlace::leave() {
  if (place_ == nullptr) return;
  wait_for_nobody();
  place_->pid.store(0);
  const auto has_left = [](const RollCallPlace& place) { return place.pid.load() == 0; };
  if (std::all_of(call_->places.begin(), call_->places.begin() + call_->size.load(), has_left)) {
    for (RollCallPlace& place : call_->places) place.steps.store(0);
    call_->size.store(0);
  }
  call_ = nullptr;
  place_ = nullptr;
}

}  // namespace warpserve::gpu::nccl
