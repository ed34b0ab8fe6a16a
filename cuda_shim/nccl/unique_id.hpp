// What an ncclUniqueId says: the address of a board.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda_shim/nccl/board.hpp"

namespace warpserve::gpu::nccl {

inline constexpr std::uint64_t kUniqueIdBytes = 128;
static_assert(sizeof(BoardAddress) <= kUniqueIdBytes);

void write_unique_id(void* id, const BoardAddress& address);
BoardAddress read_unique_id(const void* id);

// A board that can be opened until `forget_board`.
std::shared_ptr<Board> new_unique_board();
// The communicator is made: nobody has to find it any more.
void forget_board(const BoardAddress& address);

}  // namespace warpserve::gpu::nccl
