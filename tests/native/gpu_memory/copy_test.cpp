#include "cuda_shim/memory/copy.hpp"

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/native/gpu_memory/fixture.hpp"

using namespace warpserve::gpu;

namespace {

struct Places {
  Memory memory{small_machine(), small_options()};
  Address control = memory.allocate(0, 4096).value();
  Address other = memory.allocate(1, 4096).value();
  Address compute = memory.allocate(0, 8 * kMiB).value();
  Address pinned = memory.host().allocate(0, 4096, 0).value();
  std::array<char, 4096> host{};

  Address at_host() { return address_of(host.data()); }
  Result<CopyPlan> plan(Address to, Address from, std::uint64_t bytes,
                        CopyKind kind = CopyKind::kInfer) {
    return memory.copies().plan(to, from, bytes, kind);
  }
};

}  // namespace

TEST(bytes_move_between_host_and_control_memory) {
  Places places;
  std::iota(places.host.begin(), places.host.end(), 0);
  const std::array<char, 4096> original = places.host;
  places.plan(places.control, places.at_host(), 4096, CopyKind::kHostToDevice).value().move();
  places.plan(places.other, places.control, 4096, CopyKind::kDeviceToDevice).value().move();
  places.host.fill(0);
  places.plan(places.at_host(), places.other, 4096, CopyKind::kDeviceToHost).value().move();
  CHECK(places.host == original);
}

TEST(nothing_moves_with_compute_memory) {
  Places places;
  places.host.fill(5);
  places.plan(places.compute, places.at_host(), 4096).value().move();
  places.plan(places.at_host(), places.compute + 4096, 4096).value().move();
  CHECK_EQ(places.host[17], 5);
  as<char>(places.control)[0] = 9;
  places.plan(places.control, places.compute, 4096).value().move();
  CHECK_EQ(as<char>(places.control)[0], 9);
}

TEST(the_route_is_found_out) {
  Places places;
  const CopyPlan up = places.plan(places.control, places.at_host(), 100).value();
  CHECK_EQ(up.route(), CopyRoute::kHostToDevice);
  CHECK_EQ(up.bytes(), 100u);
  CHECK_EQ(up.to_device(), 0);
  CHECK_EQ(up.from_device(), kNoDevice);
  CHECK(up.from_pageable());
  CHECK(!up.to_pageable());
  const CopyPlan down = places.plan(places.pinned, places.compute, 100).value();
  CHECK_EQ(down.route(), CopyRoute::kDeviceToHost);
  CHECK(!down.to_pageable());
  CHECK_EQ(places.plan(places.compute, places.control, 1).value().route(),
           CopyRoute::kWithinDevice);
  const CopyPlan peer = places.plan(places.other, places.control, 1).value();
  CHECK_EQ(peer.route(), CopyRoute::kPeer);
  CHECK_EQ(peer.from_device(), 0);
  CHECK_EQ(peer.to_device(), 1);
  CHECK_EQ(places.plan(places.at_host(), places.pinned, 1).value().route(), CopyRoute::kHostToHost);
}

TEST(a_wrong_direction_is_an_error) {
  Places places;
  const Address host = places.at_host();
  CHECK_STATUS(places.plan(host, places.control, 1, CopyKind::kHostToDevice).status(),
               kInvalidDirection);
  CHECK_STATUS(places.plan(places.control, host, 1, CopyKind::kDeviceToHost).status(),
               kInvalidDirection);
  CHECK_STATUS(places.plan(places.control, host, 1, CopyKind::kDeviceToDevice).status(),
               kInvalidDirection);
  CHECK_STATUS(places.plan(places.control, host, 1, CopyKind::kHostToHost).status(),
               kInvalidDirection);
  CHECK(places.plan(places.control, places.pinned, 1, CopyKind::kDeviceToDevice).ok());
  CHECK(places.plan(places.control, places.pinned, 1, CopyKind::kHostToDevice).ok());
}

TEST(bounds_are_those_of_the_allocation) {
  Places places;
  const Address host = places.at_host();
  CHECK_STATUS(places.plan(places.control, host, 4097).status(), kOutOfBounds);
  CHECK_STATUS(places.plan(places.control + 1, host, 4096).status(), kOutOfBounds);
  CHECK_STATUS(places.plan(places.pinned, places.compute, 4097).status(), kOutOfBounds);
  CHECK_STATUS(places.plan(places.compute + 8 * kMiB - 1, host, 2).status(), kOutOfBounds);
  CHECK_STATUS(places.plan(places.compute, host, ~std::uint64_t{0}).status(), kOutOfBounds);
  CHECK_STATUS(places.plan(places.control, 0, 1).status(), kInvalidPointer);
  CHECK(places.plan(places.control, host, 0).ok());
  CHECK_STATUS(places.memory.free(places.control), kOk);
  CHECK_STATUS(places.plan(places.control, host, 1).status(), kInvalidPointer);
}

TEST(what_was_freed_since_is_left_out) {
  Places places;
  const CopyPlan plan = places.plan(places.at_host(), places.control, 4096).value();
  places.host.fill(3);
  CHECK_STATUS(places.memory.free(places.control), kOk);
  plan.move();
  CHECK_EQ(places.host[0], 3);
}

TEST(boxes_move_rows_and_slices) {
  Places places;
  std::iota(places.host.begin(), places.host.end(), 0);
  // 2 slices of 3 rows of 5 bytes; rows of 16 in the host's, of 8 in the device's memory.
  const CopyBox box{.to = places.control,
                    .from = places.at_host() + 2,
                    .width_bytes = 5,
                    .rows = 3,
                    .slices = 2,
                    .to_pitch_bytes = 8,
                    .from_pitch_bytes = 16,
                    .to_slice_pitch_bytes = 32,
                    .from_slice_pitch_bytes = 64};
  const CopyPlan plan = places.memory.copies().plan(box, CopyKind::kHostToDevice).value();
  CHECK_EQ(plan.bytes(), 30u);
  plan.move();
  const char* const moved = as<char>(places.control);
  for (int slice = 0; slice < 2; ++slice) {
    for (int row = 0; row < 3; ++row) {
      for (int byte = 0; byte < 8; ++byte) {
        const char expected =
            byte < 5 ? static_cast<char>(slice * 64 + row * 16 + byte + 2) : char{0};
        CHECK_EQ(moved[slice * 32 + row * 8 + byte], expected);
      }
    }
  }
}

TEST(boxes_are_checked) {
  Places places;
  const auto status = [&places](std::uint64_t width, std::uint64_t rows, std::uint64_t pitch) {
    return places.memory.copies()
        .plan(CopyBox{.to = places.control,
                      .from = places.compute,
                      .width_bytes = width,
                      .rows = rows,
                      .to_pitch_bytes = pitch,
                      .from_pitch_bytes = pitch},
              CopyKind::kInfer)
        .status();
  };
  CHECK_STATUS(status(512, 8, 512), kOk);
  CHECK_STATUS(status(1, 8, 585), kOk);
  CHECK_STATUS(status(2, 8, 585), kOutOfBounds);
  CHECK_STATUS(status(512, 9, 512), kOutOfBounds);
  CHECK_STATUS(status(512, 2, 511), kInvalidPitch);
  CHECK_STATUS(status(2, ~std::uint64_t{0}, ~std::uint64_t{0}), kOutOfBounds);
  CHECK_STATUS(status(0, 9, 512), kOk);
}

TEST(fills_set_elements) {
  Places places;
  Copies& copies = places.memory.copies();
  copies.plan_fill(places.control, 0xAB, 4096).value().move();
  CHECK_EQ(as<std::uint8_t>(places.control)[4095], 0xAB);
  const FillPlan words = copies
                             .plan_fill(FillBox{.to = places.control,
                                                .value = 0x01020304,
                                                .element_bytes = 4,
                                                .elements = 2,
                                                .rows = 2,
                                                .pitch_bytes = 16})
                             .value();
  CHECK_EQ(words.bytes(), 16u);
  CHECK_EQ(words.device(), 0);
  words.move();
  const auto* const values = as<std::uint32_t>(places.control);
  CHECK_EQ(values[1], 0x01020304u);
  CHECK_EQ(values[2], 0xABABABABu);
  CHECK_EQ(values[5], 0x01020304u);
  copies.plan_fill(places.compute, 1, 8 * kMiB).value().move();

  CHECK_STATUS(copies.plan_fill(places.control, 0, 4097).status(), kOutOfBounds);
  CHECK_STATUS(copies.plan_fill(places.at_host(), 0, 1).status(), kInvalidPointer);
  CHECK_STATUS(
      copies.plan_fill(FillBox{.to = places.control + 1, .element_bytes = 2, .elements = 1})
          .status(),
      kInvalidValue);
  CHECK_STATUS(copies.plan_fill(FillBox{.to = places.control, .element_bytes = 3}).status(),
               kInvalidValue);
}
