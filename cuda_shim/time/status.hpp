// What an operation of streams, events and graphs comes to. The entry points say it in CUDA's
// codes; the names follow cudaError.
#pragma once

#include <cstdint>

namespace warpserve::gpu {

enum class [[nodiscard]] Status : std::uint8_t {
  kOk,
  kNotReady,            // cudaErrorNotReady: asked before its time
  kInvalidValue,        // cudaErrorInvalidValue
  kInvalidHandle,       // cudaErrorInvalidResourceHandle: e.g. times of an event without timing
  kIllegalState,        // cudaErrorIllegalState: e.g. a capture begun twice
  kNotPermitted,        // cudaErrorNotPermitted: called from within a host function
  kGraphUpdateFailure,  // cudaErrorGraphExecUpdateFailure: another topology or kind of node
  // Stream capture, cudaErrorStreamCapture… and cudaErrorCapturedEvent:
  kCaptureUnsupported,  // the operation can't be captured: it blocks or queries
  kCaptureInvalidated,  // an earlier error has spoiled the capture
  kCaptureMerge,        // two captures would become one
  kCaptureUnmatched,    // ended in a stream in which it was not begun
  kCaptureUnjoined,     // ended before all forked streams have joined again
  kCaptureIsolation,    // captured work would depend on work that isn't captured
  kCaptureImplicit,     // the legacy stream would depend on captured work
  kCapturedEvent,       // the event was recorded in a capture: it has no instant
  kCaptureWrongThread,  // ended by a thread that did not begin it
};

}  // namespace warpserve::gpu
