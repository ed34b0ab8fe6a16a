#include "cuda_shim/device/profile.hpp"

#include "tests/native/gpu_time/fixture.hpp"

using namespace warpserve::gpu;

namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

// What parsing says, or "".
std::string error_of(const std::string& text) {
  try {
    Machine::parse(text, "gpus.txt");
  } catch (const ProfileError& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(reads_every_part_of_a_machine) {
  const Machine& machine = test_machine();
  CHECK_EQ(machine.device_count(), 2);
  CHECK_EQ(machine.box(), "test-box");
  CHECK_EQ(machine.nvlink(), Nvlink::kNone);
  CHECK_EQ(machine.nvml_version(), "13.580.105.08");
  CHECK_EQ(machine.nvml_architecture(), 9);
  CHECK_EQ(machine.gpu().name, "Test GPU");
  CHECK_EQ(machine.gpu().summary, "a GPU with round numbers");
  CHECK_EQ(machine.gpu().memory_usable_bytes, 900u);
  CHECK(machine.gpu().ecc_enabled);
  CHECK(!machine.gpu().mig_supported);
  CHECK(!machine.gpu().fp8_dense_flops.has_value());
  CHECK_EQ(machine.device(1).pci_bus_id, "0000:1B:00.0");
  CHECK_EQ(machine.device(0).attributes.at(1), 1024);
  CHECK((machine.device(0).properties.at(12) == std::vector<std::uint8_t>{0x4e, 0x56}));
  CHECK_EQ(machine.link(0, 1).level, LinkLevel::kSys);
  CHECK_EQ(machine.link(1, 0).bandwidth_bytes_per_s, 500'000'000u);
  CHECK(machine.link(1, 0).peer_to_peer);
}

TEST(an_unknown_key_is_named_with_its_line) {
  const std::string error = error_of("format 1\ngpu.shoe_size 43\n" + machine_text().substr(9));
  CHECK(mentions(error, "gpus.txt"));
  CHECK(mentions(error, "line 2"));
  CHECK(mentions(error, "gpu.shoe_size"));
  CHECK(mentions(error_of(machine_text() + "device.2.uuid GPU-2\n"), "device.2.uuid"));
  CHECK(mentions(error_of(machine_text() + "device.0.attribute.x 1\n"), "device.0.attribute.x"));
}

TEST(a_missing_key_is_named) {
  CHECK(mentions(error_of(replaced(machine_text(), "gpu.sm_count 10\n", "")), "gpu.sm_count"));
  CHECK(
      mentions(error_of(replaced(machine_text(), "link.1.0 SYS 0 500000000 1\n", "")), "link.1.0"));
  CHECK(mentions(error_of(replaced(machine_text(), "device.1.properties.13 4e5649\n", "")),
                 "device.1.properties.13"));
}

TEST(a_wrong_value_is_named) {
  const auto with = [](std::string_view from, std::string_view to) {
    return error_of(replaced(machine_text(), from, to));
  };
  CHECK(mentions(with("sm_count 10", "sm_count ten"), "'ten'"));
  CHECK(mentions(with("sm_count 10", "sm_count 99999999999"), "gpu.sm_count"));
  CHECK(mentions(with("memory_total_bytes 1000", "memory_total_bytes -1"), "'-1'"));
  CHECK(mentions(with("ecc_enabled 1", "ecc_enabled yes"), "0 or 1"));
  CHECK(mentions(with("12 4e56", "12 4e5"), "hexadecimal"));
  CHECK(mentions(with("12 4e56", "12 4g56"), "hexadecimal"));
  CHECK(mentions(with("nvlink none", "nvlink ring"), "'ring'"));
  CHECK(mentions(with("link.0.1 SYS", "link.0.1 FAR"), "link.0.1"));
  CHECK(mentions(with("link.0.1 SYS 0 500000000", "link.0.1 SYS 0 0"), "link.0.1"));
  CHECK(mentions(with("format 1", "format 2"), "format"));
  CHECK(mentions(with("device_count 2", "device_count 0"), "no device"));
  CHECK(mentions(with("gpu.kind test", "gpu.kind"), "key value"));
  CHECK(mentions(error_of(machine_text() + "box other\n"), "repeats the key 'box'"));
  CHECK_EQ(error_of(machine_text()), "");
}

TEST(a_missing_file_is_named) {
  try {
    Machine::read("/nonexistent/gpus");
    CHECK(false);
  } catch (const ProfileError& error) {
    CHECK(mentions(error.what(), "/nonexistent/gpus"));
  }
}
