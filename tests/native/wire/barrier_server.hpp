// A Timekeeper of the smallest kind, for tests: a Core, a gateway, and the thread that owns both.
// Modes exact and live; everything on this host counts as settled.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "timekeeper/core/core.hpp"
#include "timekeeper/server/host_clock.hpp"
#include "timekeeper/server/json.hpp"
#include "timekeeper/server/zmq/gateway.hpp"
#include "timekeeper/server/zmq/remote_road.hpp"

namespace warpserve {

class BarrierServer {
 public:
  // `said`: one line for each thing worth telling, called by the owner's thread.
  BarrierServer(GatewayOptions options, std::function<void(const std::string&)> said)
      : said_(std::move(said)), core_(options.mode, options.guard), started_(host_now()) {
    live_ = options.mode != ClockMode::kExact;
    options.clock = [this] { return VirtualTime::from_ns(virtual_now_ns()); };
    options.doorbell = [this] { ring(); };
    gateway_ = std::make_unique<Gateway>(std::move(options));
    RemoteRoadHooks hooks{
        .status_json = [this] { return status(); },
        .member_left =
            [this](const RemoteMember& member, bool died, const std::string& reason) {
              said_(std::string(died ? "DIED " : "LEFT ") + member.name + ": " + reason);
            },
        .gateway_failed = [this](const std::string& text) { said_("FAILED " + text); }};
    road_ = std::make_unique<RemoteRoad>(core_, *gateway_, std::move(hooks));
    owner_ = std::thread([this] { own(); });
  }

  ~BarrierServer() {
    gateway_->end("the test server ends");
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    rung_.notify_one();
    owner_.join();
    road_.reset();
    gateway_.reset();  // its thread rings
  }

 private:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      doorbell_ = true;
    }
    rung_.notify_one();
  }

  void own() {
    while (wait_for_work()) {
      road_->apply_requests();
      if (live_) core_.carry(VirtualTime::from_ns(virtual_now_ns()));
      while (const auto advance = core_.advance(/*settled=*/true)) {
        now_ns_ = advance->to.ns() - (live_ ? (host_now() - started_).ns() : 0);
        said_("ADVANCE " + std::to_string(advance->to.ns()));
        road_->announce(*advance);
      }
    }
  }

  bool wait_for_work() {
    std::unique_lock lock(mutex_);
    const auto due = [this] { return doorbell_ || stopping_; };
    if (live_) {
      rung_.wait_for(lock, std::chrono::milliseconds(1), due);
    } else {
      rung_.wait(lock, due);
    }
    doorbell_ = false;
    return !stopping_;
  }

  std::int64_t virtual_now_ns() const {
    return now_ns_ + (live_ ? (host_now() - started_).ns() : 0);
  }

  std::string status() const {
    JsonWriter json;
    json.begin_object().field("members", road_->members().size());
    json.field("holds", road_->holders().size()).key("actors").begin_array();
    for (const RemoteActor& actor : road_->actors()) {
      json.begin_object().field("name", actor.name).key("target_ns");
      actor.target ? json.value(actor.target->ns()) : json.null();
      json.end_object();
    }
    return json.end_array().end_object().text();
  }

  std::function<void(const std::string&)> said_;
  Core core_;
  HostTime started_;
  bool live_ = false;
  std::atomic<std::int64_t> now_ns_{0};  // live: virtual time minus host time since the start
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<RemoteRoad> road_;
  std::mutex mutex_;
  std::condition_variable rung_;
  bool doorbell_ = false;
  bool stopping_ = false;
  std::thread owner_;
};

}  // namespace warpserve
