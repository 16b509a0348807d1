// Parameters of a policy as the user wrote them, "name=value,name=value", checked against what the
// policy declares. An unknown name, an unreadable value or one out of range makes `create` refuse.
#pragma once

#include "policies/abi/troupe_policy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::sdk {

class Params {
 public:
  bool parse(std::string_view text, const troupe_param_desc* known, uint32_t known_count) {
    for (uint32_t i = 0; i < known_count; ++i) {
      values_.push_back(Value{known[i].name, known[i].initial});
    }
    while (!text.empty()) {
      const size_t comma = text.find(',');
      const std::string_view item = text.substr(0, comma);
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
      const size_t equals = item.find('=');
      if (equals == std::string_view::npos || !set(item, equals, known)) {
        return false;
      }
    }
    return true;
  }
  /// Value of a declared parameter.
  double operator[](std::string_view name) const noexcept {
    for (const Value& v : values_) {
      if (v.name == name) {
        return v.value;
      }
    }
    return 0;
  }

 private:
  struct Value {
    std::string name;
    double value;
  };
  bool set(std::string_view item, size_t equals, const troupe_param_desc* known) {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].name == item.substr(0, equals)) {
        const std::string text(item.substr(equals + 1));
        char* end = nullptr;
        const double value = strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !(value >= known[i].least && value <= known[i].most)) {
          return false;
        }
        values_[i].value = value;
        return true;
      }
    }
    return false;
  }
  std::vector<Value> values_;
};

}  // namespace troupe::sdk
