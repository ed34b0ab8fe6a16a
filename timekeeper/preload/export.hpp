// What the library exports: the functions that it interposes and the C API. All else is hidden.
#pragma once

#define WARPSERVE_EXPORT extern "C" __attribute__((visibility("default")))
