#include "cuda_shim/nccl/unique_id.hpp"

#include <cstring>
#include <map>
#include <mutex>

namespace warpserve::gpu::nccl {
namespace {

class Boards {
 public:
  static Boards& get() {
    // Never destroyed: programs call from the destructors of their static objects.
    static Boards& boards = *std::make_unique<Boards>().release();
    return boards;
  }

  void add(const std::shared_ptr<Board>& board) {
    const std::lock_guard lock(mutex_);
    boards_[board->address().token] = board;
  }
  void remove(std::uint64_t token) {
    const std::lock_guard lock(mutex_);
    boards_.erase(token);
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Board>> boards_;
};

}  // namespace

void write_unique_id(void* id, const BoardAddress& address) {
  std::memset(id, 0, kUniqueIdBytes);
  std::memcpy(id, &address, sizeof(address));
}

BoardAddress read_unique_id(const void* id) {
  BoardAddress address;
  std::memcpy(&address, id, sizeof(address));
  return address;
}

std::shared_ptr<Board> new_unique_board() {
  auto board = Board::create();
  Boards::get().add(board);
  return board;
}

void forget_board(const BoardAddress& address) {
  Boards::get().remove(address.token);
}

}  // namespace warpserve::gpu::nccl
