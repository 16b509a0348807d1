// Writes one JSON document, keys in the order of the calls. For the programs' --json; nothing reads
// JSON with it. Misuse (a value without a key in an object, an unclosed array) is a programmer
// error.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  /// Shortest text that reads back as the same double; NaN and infinities become null.
  JsonWriter& value(double number);
  template <std::integral T>
  JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  /// The document, with a line end. All objects and arrays must be closed.
  std::string take();

 private:
  struct Level {
    bool object = false;
    bool empty = true;
  };
  JsonWriter& raw(std::string_view text);
  void before_value();
  void line();
  void quote(std::string_view text);
  std::string out_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace troupe
