// Libraries that are opened by name or by path: every name of a CUDA library opens this one.
//
// dlopen looks at its return address to find whose RPATH counts. So the call goes on to the C
// library's by a jump, with the arguments exchanged.
#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>

#include "library_names.hpp"

extern "C" {
using DlopenFunction = void*(const char*, int);
[[gnu::visibility("hidden")]] DlopenFunction* warpserve_next_dlopen = nullptr;
[[gnu::visibility("hidden")]] const char* warpserve_library_to_open(const char* name);
}

namespace warpserve::gpu {
namespace {

const std::string& own_path() {
  // Never destroyed: libraries are opened while the process exits, too.
  static const auto& path = *new std::string([] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&warpserve_library_to_open), &info);
    return std::string(info.dli_fname);
  }());
  return path;
}

constexpr std::string_view kSuffix = ".so";

// "libcudart.so.13", "libcudart-1a2b3c4d.so.13" and "libcudart.1a2b3c4d.so.13" have the stem
// "libcudart": wheels carry copies under such names.
std::string_view stem_of(std::string_view file) {
  std::string_view stem = file.substr(0, file.find(kSuffix));
  constexpr std::size_t kHashLength = 9;  // with what is put before it
  if (stem.size() <= kHashLength) return stem;
  const char before = stem[stem.size() - kHashLength];
  if (before == '-' || before == '.') stem.remove_suffix(kHashLength);
  return stem;
}

bool is_cuda_library(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.find(kSuffix) == std::string_view::npos) return false;
  return std::ranges::any_of(kLibraryNames,
                             [&](std::string_view name) { return stem_of(name) == stem_of(file); });
}

// The loader knows a library by each name under which it was opened: from now on it finds this one
// where another library needs one of them, before it looks at that library's RPATH.
void take_all_names() {
  for (const std::string_view name : kLibraryNames) {
    warpserve_next_dlopen(std::string(name).c_str(), RTLD_LAZY);
  }
}

}  // namespace
}  // namespace warpserve::gpu

extern "C" const char* warpserve_library_to_open(const char* name) {
  using namespace warpserve::gpu;
  static std::once_flag first;
  std::call_once(first, [] {
    warpserve_next_dlopen = reinterpret_cast<DlopenFunction*>(dlsym(RTLD_NEXT, "dlopen"));
    take_all_names();
  });
  return name != nullptr && is_cuda_library(name) ? own_path().c_str() : name;
}

// void* dlopen(const char* name, int mode)
asm(R"(
  .text
  .globl dlopen
  .type dlopen, @function
dlopen:
  .cfi_startproc
  endbr64
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call warpserve_library_to_open
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  mov %rax, %rdi
  jmp *warpserve_next_dlopen(%rip)
  .cfi_endproc
  .size dlopen, . - dlopen
)");
