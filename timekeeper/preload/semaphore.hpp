#pragma once

namespace warpserve {

// Is glibc's semaphore laid out as interpose_semaphore.cpp relies on?
bool semaphores_are_as_we_know_them();

}  // namespace warpserve
