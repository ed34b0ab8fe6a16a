// Other communicators of its ranks: split and shrink.
#include <algorithm>
#include <utility>

#include "cuda_shim/nccl/communicator.hpp"

namespace warpserve::gpu::nccl {
namespace {

int first_left(int ranks, const std::vector<int>& excluded) {
  int rank = 0;
  while (rank < ranks && std::ranges::find(excluded, rank) != excluded.end()) ++rank;
  return rank;
}

}  // namespace

std::uint64_t Communicator::post_split(int color, int key) {
  const std::lock_guard lock(mutex_);
  require(split_board_ == nullptr, Outcome::kInvalidUsage,
          "a communicator can't be split twice in one group");
  split_board_ = Board::create();
  const std::uint64_t number = ++splits_;
  const std::vector<int> posted = posted_ranks();
  for (const int rank : posted) {
    board_->rank(rank).splits[parity(number)] = {.number = number,
                                                 .color = color,
                                                 .key = key - rank_ + rank,
                                                 .board = split_board_->address()};
  }
  const auto all = number * static_cast<std::uint64_t>(ranks_);
  if (board_->splits().fetch_add(posted.size()) + posted.size() == all) ring_others();
  return number;
}

Communicator::Place Communicator::await_split(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  const auto missing = [&]() -> std::optional<int> {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (board_->rank(rank).splits[parity(number)].number != number) return rank;
    }
    return std::nullopt;
  };
  changed_.wait(lock, [&] {
    const auto rank = missing();
    return !rank || is_gone(*rank);
  });
  const std::shared_ptr<Board> own = std::exchange(split_board_, nullptr);
  if (const auto rank = missing()) {
    throw NcclFailure(Outcome::kRemoteError, "the split lacks " + who_is(*rank));
  }
  const auto post_of_rank = [&](int rank) -> const SplitPost& {
    return board_->rank(rank).splits[parity(number)];
  };
  if (post_of_rank(rank_).color == kNoColor) return {};
  std::vector<int> members;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (post_of_rank(rank).color == post_of_rank(rank_).color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {}, [&](int rank) { return post_of_rank(rank).key; });
  const auto place = std::ranges::find(members, rank_) - members.begin();
  return {.board = place == 0 ? own : Board::open(post_of_rank(members.front()).board),
          .rank = static_cast<int>(place),
          .ranks = static_cast<int>(members.size())};
}

std::uint64_t Communicator::post_shrink(const std::vector<int>& excluded) {
  const std::lock_guard lock(mutex_);
  require_no_ghosts("shrink a communicator");
  const std::uint64_t number = ++shrinks_;
  if (first_left(ranks_, excluded) != rank_) return number;
  shrink_board_ = Board::create();
  RankEntry& own = board_->rank(rank_);
  own.shrunk = shrink_board_->address();
  own.shrinks.store(number);
  ring_others();
  return number;
}

Communicator::Place Communicator::await_shrink(std::uint64_t number,
                                               const std::vector<int>& excluded) {
  std::unique_lock lock(mutex_);
  const int leader = first_left(ranks_, excluded);
  const RankEntry& entry = board_->rank(leader);
  changed_.wait(lock, [&] { return entry.shrinks.load() >= number || is_gone(leader); });
  if (entry.shrinks.load() < number) {
    throw NcclFailure(Outcome::kRemoteError, "the smaller communicator lacks " + who_is(leader));
  }
  const auto before = [&](int rank) { return rank < rank_; };
  const auto gone_before = std::ranges::count_if(excluded, before);
  const std::shared_ptr<Board> own = std::exchange(shrink_board_, nullptr);
  return {.board = leader == rank_ ? own : Board::open(entry.shrunk),
          .rank = rank_ - static_cast<int>(gone_before),
          .ranks = ranks_ - static_cast<int>(excluded.size())};
}

}  // namespace warpserve::gpu::nccl
