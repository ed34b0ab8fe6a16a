// Programs that are compiled at run time. Kernels do not run, so nothing is compiled: any source is
// accepted, and its image is opaque to whoever loads it.
#pragma GCC visibility push(default)
#include "nvrtc.hpp"
#pragma GCC visibility pop

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>

#include "cuda_shim/entry/handles.hpp"

using namespace warpserve::gpu;

namespace {

enum Result : std::uint32_t {
  kSuccess = 0,
  kOutOfMemory = 1,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kNoNameExpressionsAfterCompilation = 8,
  kNoLoweredNamesBeforeCompilation = 9,
  kNameExpressionNotValid = 10,
};

constexpr std::array<const char*, 18> kResultNames = {
    "NVRTC_SUCCESS",
    "NVRTC_ERROR_OUT_OF_MEMORY",
    "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
    "NVRTC_ERROR_INVALID_INPUT",
    "NVRTC_ERROR_INVALID_PROGRAM",
    "NVRTC_ERROR_INVALID_OPTION",
    "NVRTC_ERROR_COMPILATION",
    "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
    "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
    "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
    "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
    "NVRTC_ERROR_INTERNAL_ERROR",
    "NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
    "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED",
    "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED",
    "NVRTC_ERROR_PCH_CREATE",
    "NVRTC_ERROR_CANCELLED",
    "NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED",
};

constexpr std::int32_t kMinorVersion = WARPSERVE_CUDA_MAJOR == 12 ? 8 : 0;

// What `--gpu-architecture` may name: Turing to Blackwell.
constexpr std::array kArchitectures =
    WARPSERVE_CUDA_MAJOR == 12 ? std::array{75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121}
                               : std::array{75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120};

constexpr std::string_view kImage = "an image of the virtual GPU: its kernels do nothing";

struct Program {
  std::mutex mutex;
  bool compiled = false;
  std::set<std::string, std::less<>> name_expressions;
};

template <class Body>
std::uint32_t with_program(void* handle, const Body& body) noexcept {
  const auto program = handles<Program>().find(handle);
  if (program == nullptr) return kInvalidProgram;
  try {
    const std::lock_guard lock(program->mutex);
    return body(*program);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

// Texts and images are told with their closing null.
std::uint32_t tell_size(void* handle, std::uint64_t* bytes, std::string_view text) {
  return with_program(handle, [&](const Program& program) {
    if (bytes == nullptr) return kInvalidInput;
    if (!program.compiled) return kInvalidProgram;
    *bytes = text.size() + 1;
    return kSuccess;
  });
}

std::uint32_t tell(void* handle, char* out, std::string_view text) {
  return with_program(handle, [&](const Program& program) {
    if (out == nullptr) return kInvalidInput;
    if (!program.compiled) return kInvalidProgram;
    std::memcpy(out, text.data(), text.size());
    out[text.size()] = '\0';
    return kSuccess;
  });
}

}  // namespace

const char* nvrtcGetErrorString(std::uint32_t result) {
  return result < kResultNames.size() ? kResultNames[result] : "NVRTC_ERROR unknown";
}

std::uint32_t nvrtcVersion(std::int32_t* major, std::int32_t* minor) {
  if (major == nullptr || minor == nullptr) return kInvalidInput;
  *major = WARPSERVE_CUDA_MAJOR;
  *minor = kMinorVersion;
  return kSuccess;
}

std::uint32_t nvrtcGetNumSupportedArchs(std::int32_t* count) {
  if (count == nullptr) return kInvalidInput;
  *count = static_cast<std::int32_t>(kArchitectures.size());
  return kSuccess;
}

std::uint32_t nvrtcGetSupportedArchs(std::int32_t* architectures) {
  if (architectures == nullptr) return kInvalidInput;
  std::memcpy(architectures, kArchitectures.data(), sizeof(kArchitectures));
  return kSuccess;
}

std::uint32_t nvrtcCreateProgram(void** program, const char* source, const char*,
                                 std::int32_t header_count, const char* const* headers,
                                 const char* const* include_names) {
  const bool lacks_headers = header_count > 0 && (headers == nullptr || include_names == nullptr);
  if (program == nullptr || source == nullptr || header_count < 0 || lacks_headers) {
    return kInvalidInput;
  }
  try {
    *program = handles<Program>().add(std::make_shared<Program>());
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
  return kSuccess;
}

std::uint32_t nvrtcDestroyProgram(void** program) {
  if (program == nullptr || handles<Program>().remove(*program) == nullptr) return kInvalidProgram;
  *program = nullptr;
  return kSuccess;
}

std::uint32_t nvrtcCompileProgram(void* handle, std::int32_t option_count,
                                  const char* const* options) {
  return with_program(handle, [&](Program& program) {
    if (option_count < 0 || (option_count > 0 && options == nullptr)) return kInvalidInput;
    program.compiled = true;
    return kSuccess;
  });
}

std::uint32_t nvrtcAddNameExpression(void* handle, const char* expression) {
  return with_program(handle, [&](Program& program) {
    if (expression == nullptr) return kInvalidInput;
    if (program.compiled) return kNoNameExpressionsAfterCompilation;
    program.name_expressions.emplace(expression);
    return kSuccess;
  });
}

// The image has kernels of any name, so the expression does as its own lowered name.
std::uint32_t nvrtcGetLoweredName(void* handle, const char* expression, const char** name) {
  return with_program(handle, [&](const Program& program) {
    if (expression == nullptr || name == nullptr) return kInvalidInput;
    if (!program.compiled) return kNoLoweredNamesBeforeCompilation;
    const auto known = program.name_expressions.find(std::string_view(expression));
    if (known == program.name_expressions.end()) return kNameExpressionNotValid;
    *name = known->c_str();
    return kSuccess;
  });
}

std::uint32_t nvrtcGetProgramLogSize(void* program, std::uint64_t* bytes) {
  return tell_size(program, bytes, "");
}
std::uint32_t nvrtcGetProgramLog(void* program, char* log) {
  return tell(program, log, "");
}
std::uint32_t nvrtcGetPTXSize(void* program, std::uint64_t* bytes) {
  return tell_size(program, bytes, kImage);
}
std::uint32_t nvrtcGetPTX(void* program, char* image) {
  return tell(program, image, kImage);
}
std::uint32_t nvrtcGetCUBINSize(void* program, std::uint64_t* bytes) {
  return tell_size(program, bytes, kImage);
}
std::uint32_t nvrtcGetCUBIN(void* program, char* image) {
  return tell(program, image, kImage);
}
std::uint32_t nvrtcGetLTOIRSize(void* program, std::uint64_t* bytes) {
  return tell_size(program, bytes, kImage);
}
std::uint32_t nvrtcGetLTOIR(void* program, char* image) {
  return tell(program, image, kImage);
}
