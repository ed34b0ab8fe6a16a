#include <algorithm>
#include <climits>
#include <cstring>
#include <vector>

#include "cuda_shim/entry/handles.hpp"
#include "cuda_shim/nccl/call.hpp"
#include "cuda_shim/nccl/unique_id.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nccl;

namespace {

// The beginning of ncclConfig_t, in all versions since 2.14.
struct ConfigBeginning {
  std::uint64_t size;
  std::uint32_t magic;
  std::uint32_t version;
  std::int32_t blocking;
};
constexpr std::uint32_t kConfigMagic = 0xcafebeef;
constexpr std::int32_t kUndefined = INT_MIN;
constexpr std::int32_t kShrinkAbort = 1;

bool is_blocking(const void* config, bool otherwise) {
  if (config == nullptr) return otherwise;
  ConfigBeginning beginning;
  std::memcpy(&beginning, config, sizeof(beginning));
  require(beginning.magic == kConfigMagic, Outcome::kInvalidArgument,
          "the ncclConfig_t was not made with NCCL_CONFIG_INITIALIZER");
  return beginning.blocking == kUndefined ? otherwise : beginning.blocking != 0;
}

std::shared_ptr<Communicator> new_communicator(Device& device, bool blocking) {
  device.open();
  return std::make_shared<Communicator>(Process::get().machine(), process_clock(), device.ordinal,
                                        device.physical, blocking);
}

// Gives the program its handle, and takes it back where the making fails at once.
void make_for(void** handle, Making making) {
  *handle = handles<Communicator>().add(making.made);
  try {
    make(std::move(making));
  } catch (const NcclFailure& failure) {
    if (failure.result() != Outcome::kInProgress) {
      handles<Communicator>().remove(*handle);
      *handle = nullptr;
    }
    throw;
  }
}

void init_rank(void** handle, int ranks, const BoardAddress& address, int rank, Device& device,
               bool blocking) {
  not_null(handle, "comm") = nullptr;
  require(ranks >= 1 && ranks <= kMaxRanks && rank >= 0 && rank < ranks, Outcome::kInvalidArgument,
          "the rank is not below the number of ranks");
  const auto made = new_communicator(device, blocking);
  make_for(handle, {.made = made, .post = [=] { made->join(Board::open(address), rank, ranks); }});
}

std::uint32_t init_rank(void** comm, int ranks, const void* id, int rank, const void* config) {
  return nccl_call([&] {
    init_rank(comm, ranks, read_unique_id(id), rank, current_device(), is_blocking(config, true));
  });
}

std::vector<int> excluded_ranks(const Communicator& parent, const std::int32_t* list, int count) {
  require(count > 0 && count < parent.ranks(), Outcome::kInvalidArgument,
          "so many ranks can't be excluded");
  not_null(list, "excludeRanksList");
  std::vector<int> excluded(list, list + count);
  std::ranges::sort(excluded);
  const bool distinct = std::ranges::adjacent_find(excluded) == excluded.end();
  require(distinct && excluded.front() >= 0 && excluded.back() < parent.ranks() &&
              std::ranges::find(excluded, parent.rank()) == excluded.end(),
          Outcome::kInvalidArgument,
          "the excluded ranks are no ranks, not distinct, or this rank itself");
  return excluded;
}

void join(Communicator& made, const Communicator::Place& place) {
  made.join(place.board, place.rank, place.ranks);
}

template <class T>
std::uint32_t ask(void* comm, T* out, T (Communicator::*what)() const) {
  return nccl_call([&] { not_null(out, "the result") = (*communicator_of(comm).*what)(); });
}

}  // namespace

std::uint32_t ncclCommInitRank(void** comm, std::int32_t ranks,
                               warpserve::cuda_shim::abi::ncclUniqueId id, std::int32_t rank) {
  return init_rank(comm, ranks, id.bytes, rank, nullptr);
}

std::uint32_t ncclCommInitRankConfig(void** comm, std::int32_t ranks,
                                     warpserve::cuda_shim::abi::ncclUniqueId id, std::int32_t rank,
                                     void* config) {
  return init_rank(comm, ranks, id.bytes, rank, config);
}

// All ids are for the same communicator: one is enough.
std::uint32_t ncclCommInitRankScalable(void** comm, std::int32_t ranks, std::int32_t rank,
                                       std::int32_t ids, void* id, void* config) {
  return nccl_call([&] {
    require(ids >= 1, Outcome::kInvalidArgument, "no ncclUniqueId");
    not_null(static_cast<std::byte*>(id), "commIds");
    init_rank(comm, ranks, read_unique_id(id), rank, current_device(), is_blocking(config, true));
  });
}

std::uint32_t ncclCommInitAll(void** comms, std::int32_t count, const std::int32_t* devices) {
  return nccl_call([&] {
    not_null(comms, "comm");
    require(count >= 1, Outcome::kInvalidArgument, "no device");
    const auto address = new_unique_board()->address();
    start_group();
    for (int rank = 0; rank < count; ++rank) {
      const int ordinal = devices == nullptr ? rank : devices[rank];
      init_rank(comms + rank, count, address, rank, Process::get().device(ordinal), true);
    }
    end_group();
  });
}

std::uint32_t ncclCommSplit(void* comm, std::int32_t color, std::int32_t key, void** split,
                            void* config) {
  return nccl_call([&] {
    const auto parent = communicator_of(comm);
    parent->require_ready();
    not_null(split, "newcomm") = nullptr;
    require(color >= Communicator::kNoColor, Outcome::kInvalidArgument,
            "the color is neither NCCL_SPLIT_NOCOLOR nor 0 or more");
    const bool takes_part = color != Communicator::kNoColor;
    const bool blocking = is_blocking(config, parent->blocking());
    const auto made =
        takes_part ? new_communicator(Process::get().device(parent->ordinal()), blocking) : nullptr;
    const auto number = std::make_shared<std::uint64_t>();
    Making making = {.made = made,
                     .post = [=] { *number = parent->post_split(color, key); },
                     .join =
                         [=] {
                           const auto place = parent->await_split(*number);
                           if (made != nullptr) join(*made, place);
                         }};
    if (takes_part) {
      make_for(split, std::move(making));
    } else {
      make(std::move(making));
    }
  });
}

std::uint32_t ncclCommShrink(void* comm, std::int32_t* list, std::int32_t count, void** shrunk,
                             void* config, std::int32_t flags) {
  return nccl_call([&] {
    const auto parent = communicator_of(comm);
    not_null(shrunk, "newcomm") = nullptr;
    const auto excluded = excluded_ranks(*parent, list, count);
    require(flags == 0 || flags == kShrinkAbort, Outcome::kInvalidArgument,
            "no such flags of ncclCommShrink");
    if (flags == kShrinkAbort) {
      parent->cancel();
    } else {
      parent->require_ready();
    }
    const auto made = new_communicator(Process::get().device(parent->ordinal()),
                                       is_blocking(config, parent->blocking()));
    const auto number = std::make_shared<std::uint64_t>();
    make_for(shrunk, {.made = made,
                      .post = [=] { *number = parent->post_shrink(excluded); },
                      .join = [=] { join(*made, parent->await_shrink(*number, excluded)); }});
  });
}

std::uint32_t ncclCommFinalize(void* comm) {
  return nccl_call([&] { communicator_of(comm)->await_idle(); });
}

std::uint32_t ncclCommDestroy(void* comm) {
  return nccl_call([&] {
    if (comm == nullptr) return;
    const auto communicator = communicator_of(comm);
    communicator->await_idle();
    handles<Communicator>().remove(comm);
    communicator->leave();
  });
}

std::uint32_t ncclCommAbort(void* comm) {
  return nccl_call([&] {
    if (comm == nullptr) return;
    const auto communicator = communicator_of(comm);
    handles<Communicator>().remove(comm);
    communicator->cancel();
    communicator->leave();
  });
}

std::uint32_t ncclCommGetAsyncError(void* comm, std::uint32_t* error) {
  return nccl_call([&] {
    const auto communicator = communicator_of(comm);
    not_null(error, "asyncError") = static_cast<std::uint32_t>(communicator->state());
  });
}

std::uint32_t ncclCommCount(void* comm, std::int32_t* count) {
  return ask(comm, count, &Communicator::ranks);
}

std::uint32_t ncclCommCuDevice(void* comm, std::int32_t* device) {
  return ask(comm, device, &Communicator::ordinal);
}

std::uint32_t ncclCommUserRank(void* comm, std::int32_t* rank) {
  return ask(comm, rank, &Communicator::rank);
}
