// Its messages: what one rank sends and another receives.
#include <algorithm>
#include <utility>

#include "cuda_shim/nccl/communicator.hpp"
#include "cuda_shim/nccl/contents.hpp"

namespace warpserve::gpu::nccl {
namespace {

std::size_t place_of(std::uint64_t message) {
  return static_cast<std::size_t>(message % kMessagePosts);
}

}  // namespace

void Communicator::post_message(Arrival arrival, std::uint64_t load_bytes, VirtualTime instant) {
  const int peer = arrival.call.peer;
  if (peer != rank_) require_no_ghosts("send and receive");
  if (arrival.call.signature.operation == Operation::kSend) {
    Channel& channel = board_->channel(rank_, peer);
    arrival.number = ++sends_[index(peer)];
    channel.sends[place_of(arrival.number)] = post_of(arrival, load_bytes, instant);
    channel.sent.store(arrival.number);
    peers_[index(peer)]->ring();
  } else {
    Channel& channel = board_->channel(peer, rank_);
    arrival.number = ++receives_[index(peer)];
    channel.receives[place_of(arrival.number)] = post_of(arrival, load_bytes, instant);
    channel.awaited.store(arrival.number);
  }
  board_->roll().wait_for(peer, name_of(arrival.call.signature.operation));
  messages_.push_back(std::move(arrival));
}

void Communicator::end_messages(std::vector<Ended>& ended) {
  for (auto message = messages_.begin(); message != messages_.end();) {
    if (auto end = this->ended(*message)) {
      ended.push_back(std::move(*end));
      message = messages_.erase(message);
      if (messages_.empty()) board_->roll().wait_for_nobody();
    } else if (state_ != Outcome::kSuccess) {
      return;
    } else {
      ++message;
    }
  }
}

std::optional<Communicator::Ended> Communicator::ended(Arrival& message) {
  const bool sends = message.call.signature.operation == Operation::kSend;
  const int peer = message.call.peer;
  const int from = sends ? rank_ : peer;
  const int to = sends ? peer : rank_;
  Channel& channel = board_->channel(from, to);
  if (channel.sent.load() < message.number || channel.awaited.load() < message.number) {
    return std::nullopt;
  }
  const Post& sent = channel.sends[place_of(message.number)];
  const Post& awaited = channel.receives[place_of(message.number)];
  if (sent.signature.bytes() != awaited.signature.bytes()) {
    fail(Outcome::kInvalidUsage,
         "the ranks do not agree on message " + std::to_string(message.number) + " from rank " +
             std::to_string(from) + " to rank " + std::to_string(to) + ": " +
             describe(sent.signature) + ", and " + describe(awaited.signature));
    return std::nullopt;
  }
  if (sends) {
    // What is staged has to stay until it is received.
    if (channel.received.load() < message.number) return std::nullopt;
  } else {
    if (const std::byte* const contents = staged(peer, sent)) {
      write(message.call.recv, contents, sent.signature.bytes());
    }
    if (state_ != Outcome::kSuccess) return std::nullopt;
    channel.received.store(message.number);
    peers_[index(peer)]->ring();
  }
  const auto start = VirtualTime::from_ns(std::max(sent.ready_ns, awaited.ready_ns));
  const std::uint64_t load_bytes = std::max(sent.load_bytes, awaited.load_bytes);
  return Ended{message.end, start + timing_->message(from, to, load_bytes)};
}

bool Communicator::is_answered(const Arrival& message) const {
  const int peer = message.call.peer;
  return message.call.signature.operation == Operation::kSend
             ? board_->channel(rank_, peer).received.load() >= message.number
             : board_->channel(peer, rank_).sent.load() >= message.number;
}

}  // namespace warpserve::gpu::nccl
