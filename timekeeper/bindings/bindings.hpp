// The parts of the Python module `warpserve.native._native`, one function a file.
#pragma once

#include <nanobind/nanobind.h>

namespace warpserve {

void bind_core(nanobind::module_& module);

}  // namespace warpserve
