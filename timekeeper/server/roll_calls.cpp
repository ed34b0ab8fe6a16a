#include "timekeeper/server/roll_calls.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <span>

#include "timekeeper/server/fd.hpp"

namespace warpserve {
namespace {

std::span<const RollCallPlace> places(const RollCall& call) {
  return std::span(call.places).first(std::min<std::size_t>(call.size.load(), kRollCallPlaces));
}

std::string name(std::span<const RollCallPlace> all, std::size_t rank) {
  const std::uint32_t pid = all[rank].pid.load();
  const char* const absent = all[rank].steps.load() == 0 ? " (has not joined)" : " (has left)";
  return "rank " + std::to_string(rank) +
         (pid == 0 ? absent : " (process " + std::to_string(pid) + ")");
}

std::string step(const RollCallPlace& place) {
  return std::string(place.step, strnlen(place.step, sizeof(place.step)));
}

}  // namespace

std::vector<std::string> describe(const RollCall& call) {
  const auto all = places(call);
  std::uint32_t furthest = 0;
  for (const RollCallPlace& place : all) furthest = std::max(furthest, place.steps.load());
  std::vector<std::string> lines;
  std::string waiting_in;
  std::string missing;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::int32_t peer = all[rank].peer.load();
    if (peer >= 0 && static_cast<std::size_t>(peer) < all.size()) {
      lines.push_back(name(all, rank) + " waits in " + step(all[rank]) + " for " +
                      name(all, static_cast<std::size_t>(peer)));
    }
    if (all[rank].steps.load() == furthest) {
      if (peer == kNobody) waiting_in = step(all[rank]);
    } else {
      missing += (missing.empty() ? "" : ", ") + name(all, rank);
    }
  }
  if (!missing.empty()) {
    lines.push_back(waiting_in + " of " + std::to_string(all.size()) + " ranks lacks " + missing);
  }
  return lines;
}

std::vector<std::string> roll_call_lines(const std::string& folder) {
  const Fd file(open((folder + "/" + kRollCallFile).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found{};
  if (file.get() < 0 || fstat(file.get(), &found) != 0 ||
      static_cast<std::size_t>(found.st_size) != sizeof(RollCalls)) {
    return {};
  }
  void* const at = mmap(nullptr, sizeof(RollCalls), PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return {};
  std::vector<std::string> lines;
  for (const RollCall& call : *static_cast<const RollCalls*>(at)) {
    std::ranges::move(describe(call), std::back_inserter(lines));
  }
  munmap(at, sizeof(RollCalls));
  return lines;
}

}  // namespace warpserve
