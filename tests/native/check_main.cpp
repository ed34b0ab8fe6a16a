#include <string_view>

#include "tests/native/check.hpp"

namespace {

bool passes(const check::Test& test) {
  const int before = check::failures();
  try {
    test.body();
  } catch (const check::TestEnded&) {
    // REQUIRE has recorded the failure.
  } catch (const std::exception& error) {
    check::fail(test.name, 0, std::string("exception: ") + error.what());
  }
  const bool passed = check::failures() == before;
  std::cout << (passed ? "ok      " : "FAILED  ") << test.name << std::endl;
  return passed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  int passed = 0;
  int failed = 0;
  for (const check::Test& test : check::tests()) {
    if (std::string_view(test.name).find(wanted) == std::string_view::npos) continue;
    ++(passes(test) ? passed : failed);
  }
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 && passed > 0 ? 0 : 1;
}
