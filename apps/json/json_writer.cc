#include "apps/json/json_writer.h"

#include "runtime/base/assert.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace troupe {

void JsonWriter::line() {
  out_ += '\n';
  out_.append(2 * levels_.size(), ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) {
    TROUPE_ASSERT(out_.empty());
    return;
  }
  TROUPE_ASSERT(!levels_.back().object);
  out_ += levels_.back().empty ? "" : ",";
  levels_.back().empty = false;
  line();
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  before_value();
  out_ += text;
  return *this;
}

void JsonWriter::quote(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out_ += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (c == '\t') {
      out_ += "\\t";
    } else if (byte < 0x20) {
      out_ += "\\u00";
      out_ += kHex[byte >> 4];
      out_ += kHex[byte & 15];
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

JsonWriter& JsonWriter::begin_object() {
  raw("{");
  levels_.push_back({.object = true, .empty = true});
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  raw("[");
  levels_.push_back({.object = false, .empty = true});
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  TROUPE_ASSERT(!levels_.empty() && levels_.back().object && !after_key_);
  const bool empty = levels_.back().empty;
  levels_.pop_back();
  if (!empty) {
    line();
  }
  out_ += '}';
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  TROUPE_ASSERT(!levels_.empty() && !levels_.back().object);
  const bool empty = levels_.back().empty;
  levels_.pop_back();
  if (!empty) {
    line();
  }
  out_ += ']';
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  TROUPE_ASSERT(!levels_.empty() && levels_.back().object && !after_key_);
  out_ += levels_.back().empty ? "" : ",";
  levels_.back().empty = false;
  line();
  quote(name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  return raw(flag ? "true" : "false");
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) {
    return raw("null");
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number);
  return raw({text.data(), static_cast<size_t>(end.ptr - text.data())});
}

std::string JsonWriter::take() {
  TROUPE_ASSERT(levels_.empty() && !after_key_);
  out_ += '\n';
  return std::exchange(out_, {});
}

}  // namespace troupe
