#include "cuda_shim/nccl/launch.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "cuda_shim/time/context.hpp"

namespace warpserve::gpu::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<Making> makings;
  std::vector<Enqueued> operations;
  Outcome failure = Outcome::kSuccess;
};

thread_local Group group;

void step(const std::vector<Making>& makings, std::function<void()> Making::* which) {
  for (const Making& making : makings) {
    if (making.*which) (making.*which)();
  }
}

void fail_all(const std::vector<Making>& makings, const NcclFailure& failure) {
  for (const Making& making : makings) {
    if (making.made != nullptr) making.made->fail_making(failure);
  }
}

void make_all(const std::vector<Making>& makings) {
  try {
    step(makings, &Making::post);
    step(makings, &Making::join);
    for (const Making& making : makings) {
      if (making.made != nullptr) making.made->await_ready();
    }
  } catch (const NcclFailure& failure) {
    fail_all(makings, failure);
    throw;
  } catch (const std::exception& error) {
    const NcclFailure failure(Outcome::kSystemError, error.what());
    fail_all(makings, failure);
    throw failure;
  }
}

// A thread of its own waits for the others; ncclCommGetAsyncError tells how it went.
void make_in_background(std::vector<Making> makings) {
  std::thread([all = std::move(makings)] {
    try {
      make_all(all);
    } catch (const NcclFailure&) {
      // The communicators have it.
    }
  }).detach();
}

void make_now(std::vector<Making> makings) {
  const auto is_blocking = [](const Making& making) {
    return making.made == nullptr || making.made->blocking();
  };
  if (std::ranges::all_of(makings, is_blocking)) return make_all(makings);
  make_in_background(std::move(makings));
  throw NcclFailure(Outcome::kInProgress, "the communicator is being made");
}

void expect(Status status) {
  if (status != Status::kOk) {
    throw NcclFailure(Outcome::kUnhandledCudaError, "the stream does not take the operation");
  }
}

// What comes next in `later` begins when all so far in `earlier` is done; also in a capture.
void order(Stream& earlier, Stream& later) {
  const auto event = earlier.context().create_event({.timing = false});
  expect(earlier.record(event));
  expect(later.wait(event));
}

void require_few_messages(const std::vector<Call>& calls) {
  std::map<std::pair<Operation, int>, std::uint64_t> counts;
  for (const Call& call : calls) {
    if (!is_point_to_point(call.signature.operation)) continue;
    require(++counts[{call.signature.operation, call.peer}] <= kMessagesOfGroup,
            Outcome::kInvalidUsage,
            "more than 128 messages between two ranks in one group: use several groups");
  }
}

// The operations of one communicator are one piece of work in the first of their streams.
void launch(const std::shared_ptr<Communicator>& communicator,
            const std::vector<Enqueued>& operations) {
  std::vector<Call> calls;
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Enqueued& operation : operations) {
    if (operation.communicator != communicator) continue;
    calls.push_back(operation.call);
    if (std::ranges::find(streams, operation.stream) == streams.end()) {
      streams.push_back(operation.stream);
    }
  }
  require_few_messages(calls);
  Stream& stream = *streams.front();
  for (std::size_t i = 1; i < streams.size(); ++i) order(*streams[i], stream);
  expect(stream.submit(
      PendingWork{[communicator, calls](const Completion& ready, const CompletionSource& end) {
        communicator->start(calls, ready, end);
      }}));
  for (std::size_t i = 1; i < streams.size(); ++i) order(stream, *streams[i]);
}

void launch_all(const std::vector<Enqueued>& operations) {
  std::vector<std::shared_ptr<Communicator>> launched;
  for (const Enqueued& operation : operations) {
    const auto& communicator = operation.communicator;
    if (std::ranges::find(launched, communicator) != launched.end()) continue;
    launched.push_back(communicator);
    launch(communicator, operations);
  }
}

}  // namespace

void make(Making making) {
  if (group.depth > 0) {
    group.makings.push_back(std::move(making));
    return;
  }
  std::vector<Making> one;
  one.push_back(std::move(making));
  make_now(std::move(one));
}

void enqueue(Enqueued operation) {
  if (group.depth > 0) {
    group.operations.push_back(std::move(operation));
    return;
  }
  launch(operation.communicator, {operation});
}

void start_group() {
  ++group.depth;
}

void end_group() {
  require(group.depth > 0, Outcome::kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return;
  Group ended = std::exchange(group, {});
  if (ended.failure != Outcome::kSuccess) {
    const NcclFailure failure(ended.failure, "a call of the group has failed, so none was begun");
    fail_all(ended.makings, failure);
    throw failure;
  }
  if (!ended.makings.empty()) make_now(std::move(ended.makings));
  launch_all(ended.operations);
}

void fail_group(Outcome result) {
  if (group.depth > 0 && group.failure == Outcome::kSuccess) group.failure = result;
}

}  // namespace warpserve::gpu::nccl
