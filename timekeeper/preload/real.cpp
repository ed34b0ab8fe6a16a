#include "timekeeper/preload/real.hpp"

#include <dlfcn.h>

#include "timekeeper/preload/fatal.hpp"

namespace warpserve::detail {

constinit RealFunctions real_functions{};

namespace {

void* next(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == nullptr) die("libc has no function ", name);
  return function;
}

}  // namespace

void resolve_real_functions() {
#define WARPSERVE_RESOLVE_REAL(name) \
  real_functions.name = reinterpret_cast<decltype(&::name)>(next(#name));
  WARPSERVE_REAL_FUNCTIONS(WARPSERVE_RESOLVE_REAL)
#undef WARPSERVE_RESOLVE_REAL
}

}  // namespace warpserve::detail
