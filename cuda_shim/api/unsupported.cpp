#include "cuda_shim/api/unsupported.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_shim/api/unsupported_counts.hpp"

namespace warpserve::cuda_shim {
namespace {

constexpr const char* kPolicyVariable = "WARPSERVE_UNSUPPORTED";

struct Counts {
  std::mutex mutex;
  std::vector<UnsupportedCount> calls;
};

// Never destroyed: libraries call entry points from their own destructors.
Counts& counts() {
  static Counts* const instance = std::make_unique<Counts>().release();
  return *instance;
}

void print(std::string message) {
  message.insert(0, "warpserve: ").push_back('\n');
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
}

bool read_policy() {
  const char* value = std::getenv(kPolicyVariable);
  const std::string_view policy = value == nullptr ? "error" : value;
  if (policy == "error") return false;
  if (policy == "warn") return true;
  print(std::string(kPolicyVariable) + "=" + std::string(policy) + ": say error or warn");
  std::abort();
}

bool only_warns() {
  static const bool warn = read_policy();
  return warn;
}

std::string place_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return "an unknown place";
  std::string place = info.dli_fname;
  if (info.dli_sname != nullptr) place.append(" (").append(info.dli_sname).append(")");
  return place;
}

// Returns whether this is the first call of that name.
bool count(const char* name) {
  const std::lock_guard lock(counts().mutex);
  auto& known = counts().calls;
  const auto found = std::find_if(known.begin(), known.end(), [&](const UnsupportedCount& entry) {
    return entry.name == name;
  });
  if (found != known.end()) {
    ++found->calls;
    return false;
  }
  known.push_back({name, 1});
  return true;
}

void report(const UnsupportedCall& call, std::string_view outcome) {
  if (!count(call.name)) return;
  print(std::string(call.name) + " (" + call.library + ") was called from " +
        place_of(call.caller) + ", but the virtual GPU does not support it. " + call.advice + ". " +
        std::string(outcome));
}

}  // namespace

int unsupported(const UnsupportedCall& call, int error) noexcept {
  if (only_warns()) {
    report(call, "It succeeds without effect, as WARPSERVE_UNSUPPORTED=warn asks.");
    return 0;
  }
  report(call, "It fails; WARPSERVE_UNSUPPORTED=warn lets such calls pass and counts them.");
  return error;
}

int refused(const UnsupportedCall& call, int error) noexcept {
  report(call, "It fails.");
  return error;
}

void unsupported_void(const UnsupportedCall& call) noexcept {
  if (only_warns()) {
    report(call, "It returns without effect, as WARPSERVE_UNSUPPORTED=warn asks.");
    return;
  }
  report(call,
         "It cannot return an error, so the process ends; WARPSERVE_UNSUPPORTED=warn lets it "
         "pass.");
  std::abort();
}

void unsupported_result(const UnsupportedCall& call) noexcept {
  report(call, "No result of it would be right, so the process ends.");
  std::abort();
}

std::vector<UnsupportedCount> unsupported_counts() {
  const std::lock_guard lock(counts().mutex);
  return counts().calls;
}

}  // namespace warpserve::cuda_shim
