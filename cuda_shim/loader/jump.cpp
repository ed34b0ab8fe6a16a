#include "cuda_shim/loader/jump.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace warpserve::gpu {

bool write_jump(void* from, const void* to) {
  constexpr std::array<std::uint8_t, 6> kJumpToAddressBehind = {0xff, 0x25, 0, 0, 0, 0};
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  void* const first_page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
  const std::uintptr_t bytes = address % page_bytes + kJumpBytes;
  // Executable all the while: what we call here may be on the same page.
  if (mprotect(first_page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  std::memcpy(from, kJumpToAddressBehind.data(), kJumpToAddressBehind.size());
  std::memcpy(static_cast<char*>(from) + kJumpToAddressBehind.size(), &to, sizeof(to));
  return mprotect(first_page, bytes, PROT_READ | PROT_EXEC) == 0;
}

bool is_empty_function(const void* function) {
  constexpr std::array<std::uint8_t, 4> kEndbr64 = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr std::uint8_t kReturn = 0xc3;
  // Of the instructions that compilers pad with.
  constexpr std::array<std::uint8_t, 9> kPadding = {0x66, 0x2e, 0x0f, 0x1f, 0x84,
                                                    0x80, 0x40, 0x44, 0x00};
  constexpr std::array<std::uint8_t, 2> kPaddingOfOneByte = {0x90, 0xcc};
  const std::span code(static_cast<const std::uint8_t*>(function), kJumpBytes);
  const bool marked = std::ranges::equal(code.first(kEndbr64.size()), kEndbr64);
  const auto body = code.subspan(marked ? kEndbr64.size() : 0);
  return body.front() == kReturn && std::ranges::all_of(body.subspan(1), [&](std::uint8_t byte) {
           return std::ranges::find(kPadding, byte) != kPadding.end() ||
                  std::ranges::find(kPaddingOfOneByte, byte) != kPaddingOfOneByte.end();
         });
}

}  // namespace warpserve::gpu
