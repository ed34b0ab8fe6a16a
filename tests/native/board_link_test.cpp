// The Timekeeper's side of the board, of which members may have written anything.
#include "timekeeper/server/board_link.hpp"

#include "tests/native/check.hpp"
#include "timekeeper/server/shared_memory.hpp"

namespace warpserve {
namespace {

const SharedMemoryOptions kOptions = {.mode = ClockMode::kExact,
                                      .guard = GuardKind::kSettle,
                                      .slot_capacity = 64,
                                      .spin_limit = 100,
                                      .spin_quantum_ns = 1,
                                      .realtime_epoch_ns = 0};

TEST(what_a_thread_has_made_for_its_process_outlives_it) {
  const SharedMemory memory(kOptions);
  Core core(ClockMode::kExact, GuardKind::kSettle);
  WakeDescriptors wake_descriptors;
  BoardLink link(memory.board(), core, wake_descriptors, nullptr);
  for (const SlotKind kind : {SlotKind::kWait, SlotKind::kActor, SlotKind::kHold}) {
    auto slot = SlotOwner::claim_any(memory.board(), 1, 2, kind);
    REQUIRE(slot.has_value());
    slot->arm(VirtualTime::from_ns(5));
  }
  link.update();
  CHECK_EQ(link.waiting().size(), std::size_t{2});
  link.remove_thread(1, 2);
  CHECK_EQ(link.waiting().size(), std::size_t{1});
  CHECK_EQ(link.holders().size(), std::size_t{1});
  link.remove_process(1);
  CHECK_EQ(link.waiting().size(), std::size_t{0});
  CHECK_EQ(link.holders().size(), std::size_t{0});
}

TEST(a_damaged_board_leads_nowhere_beyond_it) {
  const SharedMemory memory(kOptions);
  Core core(ClockMode::kExact, GuardKind::kSettle);
  WakeDescriptors wake_descriptors;
  BoardLink link(memory.board(), core, wake_descriptors, nullptr);
  const auto slot = SlotOwner::claim_any(memory.board(), 1, 1, SlotKind::kWait);
  REQUIRE(slot.has_value());
  SlotOwner(*slot).arm(VirtualTime::from_ns(5));

  memory.board().capacity = 0xffffffff;
  memory.board().high_water.store(0xffffffff);
  link.update();
  CHECK_EQ(link.waiting().size(), std::size_t{1});
  link.remove_thread(1, 1);
  link.remove_process(1);
  CHECK_EQ(link.waiting().size(), std::size_t{0});
}

}  // namespace
}  // namespace warpserve
