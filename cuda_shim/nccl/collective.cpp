#include "cuda_shim/entry/memory.hpp"
#include "cuda_shim/entry/streams.hpp"
#include "cuda_shim/nccl/call.hpp"

using namespace warpserve::gpu;
using namespace warpserve::gpu::nccl;

namespace {

constexpr std::int32_t kNoRoot = 0;
constexpr std::uint32_t kNoReduction = 0;

// NCCL's default stream is that of the communicator's device, whatever device is current.
std::shared_ptr<Stream> stream_on(int ordinal, void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) > kPerThreadStreamHandle) {
    auto stream = stream_of(handle);
    require(device_of(*stream).ordinal == ordinal, Outcome::kInvalidArgument,
            "the stream is of another device than the communicator");
    return stream;
  }
  Thread& thread = Thread::get();
  const Thread before = thread;
  thread.set_device(Process::get().device(ordinal));
  auto stream = stream_of(handle);
  thread = before;
  return stream;
}

void require_on_device(Address address, std::uint64_t bytes, const char* message) {
  if (bytes == 0) return;
  Memory& memory = process_memory();
  const auto info = memory.query(address);
  const bool visible = info.ok() && info.value().kind != MemoryKind::kUnregistered;
  require(visible && memory.contents(address, bytes).ok(), Outcome::kInvalidArgument, message);
}

void enqueue_call(void* comm, void* stream, Call call) {
  const auto communicator = communicator_of(comm);
  communicator->require_ready();
  Signature& signature = call.signature;
  const int ranks = communicator->ranks();
  require(signature.count <= UINT64_MAX / 8 / static_cast<std::uint64_t>(ranks),
          Outcome::kInvalidArgument, "the count is larger than any memory");
  require(signature.root >= 0 && signature.root < ranks && call.peer >= 0 && call.peer < ranks,
          Outcome::kInvalidArgument, "the root or peer is no rank of the communicator");
  if (signature.reduction >= kReductions) {
    call.factor = communicator->reductions().factor(signature.reduction, signature.type);
  }
  const int rank = communicator->rank();
  require_on_device(call.send, contributed_bytes(signature, rank, ranks),
                    "sendbuff is no memory of a GPU, or too small");
  require_on_device(call.recv, received_bytes(signature, rank, ranks),
                    "recvbuff is no memory of a GPU, or too small");
  auto target = stream_on(communicator->ordinal(), stream);
  nccl::enqueue({communicator, std::move(target), call});
}

std::uint32_t collective(Operation operation, const void* send, void* recv, std::uint64_t count,
                         std::uint32_t type, std::uint32_t reduction, std::int32_t root, void* comm,
                         void* stream) {
  return nccl_call([&] {
    enqueue_call(comm, stream,
                 {.signature = {operation, data_type_of(type), reduction, root, count},
                  .send = address_of(send),
                  .recv = address_of(recv)});
  });
}

}  // namespace

std::uint32_t ncclAllReduce(const void* send, void* recv, std::uint64_t count, std::uint32_t type,
                            std::uint32_t reduction, void* comm, void* stream) {
  return collective(Operation::kAllReduce, send, recv, count, type, reduction, kNoRoot, comm,
                    stream);
}

std::uint32_t ncclReduce(const void* send, void* recv, std::uint64_t count, std::uint32_t type,
                         std::uint32_t reduction, std::int32_t root, void* comm, void* stream) {
  return collective(Operation::kReduce, send, recv, count, type, reduction, root, comm, stream);
}

std::uint32_t ncclReduceScatter(const void* send, void* recv, std::uint64_t count,
                                std::uint32_t type, std::uint32_t reduction, void* comm,
                                void* stream) {
  return collective(Operation::kReduceScatter, send, recv, count, type, reduction, kNoRoot, comm,
                    stream);
}

std::uint32_t ncclBroadcast(const void* send, void* recv, std::uint64_t count, std::uint32_t type,
                            std::int32_t root, void* comm, void* stream) {
  return collective(Operation::kBroadcast, send, recv, count, type, kNoReduction, root, comm,
                    stream);
}

std::uint32_t ncclBcast(void* buffer, std::uint64_t count, std::uint32_t type, std::int32_t root,
                        void* comm, void* stream) {
  return collective(Operation::kBroadcast, buffer, buffer, count, type, kNoReduction, root, comm,
                    stream);
}

std::uint32_t ncclAllGather(const void* send, void* recv, std::uint64_t count, std::uint32_t type,
                            void* comm, void* stream) {
  return collective(Operation::kAllGather, send, recv, count, type, kNoReduction, kNoRoot, comm,
                    stream);
}

std::uint32_t ncclAlltoAll(const void* send, void* recv, std::uint64_t count, std::uint32_t type,
                           void* comm, void* stream) {
  return collective(Operation::kAllToAll, send, recv, count, type, kNoReduction, kNoRoot, comm,
                    stream);
}

std::uint32_t ncclGather(const void* send, void* recv, std::uint64_t count, std::uint32_t type,
                         std::int32_t root, void* comm, void* stream) {
  return collective(Operation::kGather, send, recv, count, type, kNoReduction, root, comm, stream);
}

std::uint32_t ncclScatter(const void* send, void* recv, std::uint64_t count, std::uint32_t type,
                          std::int32_t root, void* comm, void* stream) {
  return collective(Operation::kScatter, send, recv, count, type, kNoReduction, root, comm, stream);
}

std::uint32_t ncclSend(const void* send, std::uint64_t count, std::uint32_t type, std::int32_t peer,
                       void* comm, void* stream) {
  return nccl_call([&] {
    enqueue_call(comm, stream,
                 {.signature = {Operation::kSend, data_type_of(type), kNoReduction, kNoRoot, count},
                  .peer = peer,
                  .send = address_of(send)});
  });
}

std::uint32_t ncclRecv(void* recv, std::uint64_t count, std::uint32_t type, std::int32_t peer,
                       void* comm, void* stream) {
  return nccl_call([&] {
    enqueue_call(comm, stream,
                 {.signature = {Operation::kRecv, data_type_of(type), kNoReduction, kNoRoot, count},
                  .peer = peer,
                  .recv = address_of(recv)});
  });
}
