// The native tests' harness. A test is `TEST(name) { ... }`; CHECK and CHECK_EQ record a failure
// and go on, REQUIRE ends the test. Link check_main.cpp; an argument selects the tests whose name
// contains it.
#pragma once

#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace check {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registration {
  Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

// Thrown by REQUIRE.
struct TestEnded : std::exception {
  const char* what() const noexcept override { return "a requirement of the test does not hold"; }
};

template <class T>
void describe(std::ostream& out, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    out << +static_cast<std::underlying_type_t<T>>(value);
  } else if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (requires { value.ns(); }) {
    out << value.ns() << " ns";
  } else if constexpr (requires { value.value; }) {
    describe(out, value.value);
  } else if constexpr (requires { value.has_value(); }) {
    if (value) {
      describe(out, *value);
    } else {
      out << "nothing";
    }
  } else {
    out << "(" << sizeof(T) << " bytes)";
  }
}

inline void fail(const char* file, int line, const std::string& what) {
  ++failures();
  std::cout << file << ":" << line << ": " << what << "\n";
}

template <class A, class B>
void check_eq(const char* file, int line, const char* text, const A& a, const B& b) {
  if (a == b) return;
  std::ostringstream what;
  what << std::boolalpha << text << ": ";
  describe(what, a);
  what << " != ";
  describe(what, b);
  fail(file, line, what.str());
}

}  // namespace check

#define TEST(name)                                                        \
  static void test_##name();                                              \
  static const check::Registration registered_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition) \
  ((condition) ? void() : check::fail(__FILE__, __LINE__, "not true: " #condition))

#define REQUIRE(condition) \
  ((condition)             \
       ? void()            \
       : (check::fail(__FILE__, __LINE__, "not true: " #condition), throw check::TestEnded()))

#define CHECK_EQ(a, b) check::check_eq(__FILE__, __LINE__, #a " == " #b, a, b)
