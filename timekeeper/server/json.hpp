// Writes JSON text: objects, arrays, strings, integers, booleans. Nothing is parsed here.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace warpserve {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name) {
    separate();
    quote(name);
    text_ += ':';
    after_key_ = true;
    return *this;
  }
  JsonWriter& value(std::string_view text) {
    separate();
    quote(text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool> && !std::same_as<Integer, char>)
  JsonWriter& value(Integer number) {
    return raw(std::to_string(number));
  }
  JsonWriter& null() { return raw("null"); }

  template <class Value>
  JsonWriter& field(std::string_view name, Value&& v) {
    return key(name).value(static_cast<Value&&>(v));
  }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  JsonWriter& raw(std::string_view token) {
    separate();
    text_ += token;
    return *this;
  }
  void separate() {
    if (after_key_) {
      after_key_ = false;
    } else if (!first_) {
      text_ += ',';
    }
    first_ = false;
  }
  void quote(std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    text_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20 || byte >= 0x7f) {
        // Names of processes are bytes of any encoding; each becomes one code point.
        text_ += "\\u00";
        text_ += kHex[byte >> 4];
        text_ += kHex[byte & 0xf];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool first_ = true;
  bool after_key_ = false;
};

}  // namespace warpserve
