#include "timekeeper/bindings/bindings.hpp"

NB_MODULE(_native, module) {
  module.doc() = "The native parts of warpserve that Python uses directly.";
  warpserve::bind_core(module);
}
