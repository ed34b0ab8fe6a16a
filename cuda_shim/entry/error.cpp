#include "cuda_shim/entry/error.hpp"

#include <algorithm>
#include <array>

namespace warpserve::gpu {
namespace {

// Source: driver_types.h and cuda.h of CUDA 13; the words are those of cudaGetErrorString.
constexpr std::array kErrors = {
    ErrorText{0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    ErrorText{1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ErrorText{2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED",
              "initialization error"},
    ErrorText{4, "cudaErrorCudartUnloading", "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    ErrorText{9, "cudaErrorInvalidConfiguration", nullptr, "invalid configuration argument"},
    ErrorText{12, "cudaErrorInvalidPitchValue", nullptr, "invalid pitch argument"},
    ErrorText{13, "cudaErrorInvalidSymbol", nullptr, "invalid device symbol"},
    ErrorText{17, "cudaErrorInvalidDevicePointer", nullptr, "invalid device pointer"},
    ErrorText{21, "cudaErrorInvalidMemcpyDirection", nullptr, "invalid copy direction for memcpy"},
    ErrorText{35, "cudaErrorInsufficientDriver", nullptr,
              "CUDA driver version is insufficient for CUDA runtime version"},
    ErrorText{46, "cudaErrorDevicesUnavailable", "CUDA_ERROR_DEVICE_UNAVAILABLE",
              "all CUDA-capable devices are busy or unavailable"},
    ErrorText{98, "cudaErrorInvalidDeviceFunction", nullptr, "invalid device function"},
    ErrorText{100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE",
              "no CUDA-capable device is detected"},
    ErrorText{101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ErrorText{200, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE",
              "device kernel image is invalid"},
    ErrorText{201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT",
              "invalid device context"},
    ErrorText{209, "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU",
              "no kernel image is available for execution on the device"},
    ErrorText{214, "cudaErrorECCUncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE",
              "uncorrectable ECC error encountered"},
    ErrorText{217, "cudaErrorPeerAccessUnsupported", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
              "peer access is not supported between these two devices"},
    ErrorText{218, "cudaErrorInvalidPtx", "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    ErrorText{300, "cudaErrorInvalidSource", "CUDA_ERROR_INVALID_SOURCE", "invalid source"},
    ErrorText{301, "cudaErrorFileNotFound", "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    ErrorText{302, "cudaErrorSharedObjectSymbolNotFound",
              "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found"},
    ErrorText{303, "cudaErrorSharedObjectInitFailed", "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
              "shared object initialization failed"},
    ErrorText{304, "cudaErrorOperatingSystem", "CUDA_ERROR_OPERATING_SYSTEM",
              "OS call failed or operation not supported on this OS"},
    ErrorText{400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE",
              "invalid resource handle"},
    ErrorText{401, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE",
              "the operation cannot be performed in the present state"},
    ErrorText{500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ErrorText{600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    ErrorText{700, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS",
              "an illegal memory access was encountered"},
    ErrorText{701, "cudaErrorLaunchOutOfResources", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
              "too many resources requested for launch"},
    ErrorText{702, "cudaErrorLaunchTimeout", "CUDA_ERROR_LAUNCH_TIMEOUT",
              "the launch timed out and was terminated"},
    ErrorText{704, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
              "peer access is already enabled"},
    ErrorText{705, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
              "peer access has not been enabled"},
    ErrorText{708, "cudaErrorSetOnActiveProcess", "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
              "cannot set while device is active in this process"},
    ErrorText{709, "cudaErrorContextIsDestroyed", "CUDA_ERROR_CONTEXT_IS_DESTROYED",
              "context is destroyed"},
    ErrorText{710, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    ErrorText{712, "cudaErrorHostMemoryAlreadyRegistered",
              "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
              "part or all of the requested memory range is already mapped"},
    ErrorText{713, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
              "pointer does not correspond to a registered memory region"},
    ErrorText{715, "cudaErrorIllegalInstruction", "CUDA_ERROR_ILLEGAL_INSTRUCTION",
              "an illegal instruction was encountered"},
    ErrorText{716, "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS",
              "misaligned address"},
    ErrorText{719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED",
              "unspecified launch failure"},
    ErrorText{800, "cudaErrorNotPermitted", "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    ErrorText{801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    ErrorText{802, "cudaErrorSystemNotReady", "CUDA_ERROR_SYSTEM_NOT_READY",
              "system not yet initialized"},
    ErrorText{803, "cudaErrorSystemDriverMismatch", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
              "system has unsupported display driver / cuda driver combination"},
    ErrorText{900, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
              "operation not permitted when stream is capturing"},
    ErrorText{901, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
              "operation failed due to a previous error during capture"},
    ErrorText{902, "cudaErrorStreamCaptureMerge", "CUDA_ERROR_STREAM_CAPTURE_MERGE",
              "operation would result in a merge of separate capture sequences"},
    ErrorText{903, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
              "capture was not ended in the same stream as it began"},
    ErrorText{904, "cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
              "capturing stream has unjoined work"},
    ErrorText{905, "cudaErrorStreamCaptureIsolation", "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
              "dependency created on uncaptured work in another stream"},
    ErrorText{906, "cudaErrorStreamCaptureImplicit", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
              "operation would make the legacy stream depend on a capturing blocking stream"},
    ErrorText{907, "cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT",
              "operation not permitted on an event last recorded in a capturing stream"},
    ErrorText{908, "cudaErrorStreamCaptureWrongThread", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
              "attempt to terminate a thread-local capture sequence from another thread"},
    ErrorText{909, "cudaErrorTimeout", "CUDA_ERROR_TIMEOUT", "wait operation timed out"},
    ErrorText{910, "cudaErrorGraphExecUpdateFailure", "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
              "the graph update was not performed because it included changes which violated "
              "constraints specific to instantiated graph update"},
    ErrorText{999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};

}  // namespace

const ErrorText* find_error_text(std::uint32_t code) {
  const auto found = std::ranges::lower_bound(kErrors, code, {}, &ErrorText::code);
  return found != kErrors.end() && found->code == code ? &*found : nullptr;
}

Error error_of(Status status) {
  switch (status) {
    case Status::kOk:
      return Error::kSuccess;
    case Status::kNotReady:
      return Error::kNotReady;
    case Status::kInvalidValue:
      return Error::kInvalidValue;
    case Status::kInvalidHandle:
      return Error::kInvalidHandle;
    case Status::kIllegalState:
      return Error::kIllegalState;
    case Status::kNotPermitted:
      return Error::kNotPermitted;
    case Status::kGraphUpdateFailure:
      return Error::kGraphUpdateFailure;
    case Status::kCaptureUnsupported:
      return Error::kCaptureUnsupported;
    case Status::kCaptureInvalidated:
      return Error::kCaptureInvalidated;
    case Status::kCaptureMerge:
      return Error::kCaptureMerge;
    case Status::kCaptureUnmatched:
      return Error::kCaptureUnmatched;
    case Status::kCaptureUnjoined:
      return Error::kCaptureUnjoined;
    case Status::kCaptureIsolation:
      return Error::kCaptureIsolation;
    case Status::kCaptureImplicit:
      return Error::kCaptureImplicit;
    case Status::kCapturedEvent:
      return Error::kCapturedEvent;
    case Status::kCaptureWrongThread:
      return Error::kCaptureWrongThread;
  }
  return Error::kUnknown;
}

}  // namespace warpserve::gpu
