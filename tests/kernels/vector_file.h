// Worked numbers from tests/kernels/vectors/*.json, read with Cap'n Proto's JSON parser. A name
// that is missing fails the test.
#pragma once

#include <capnp/compat/json.h>
#include <capnp/message.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::kernels {

class Json {
 public:
  explicit Json(capnp::json::Value::Reader value) : value_(value) {}
  Json operator[](const char* name) const;
  Json at(size_t index) const;
  size_t size() const;
  /// Also of the texts "nan", "inf" and "-inf".
  double number() const;
  float f32() const { return static_cast<float>(number()); }
  bool flag() const { return value_.getBoolean(); }
  std::string text() const;
  /// "0x1f".
  uint32_t hex() const;
  std::vector<float> floats() const;
  /// Row by row.
  std::vector<float> flat() const;

 private:
  capnp::json::Value::Reader value_;
};

class VectorFile {
 public:
  /// `name` without folder.
  explicit VectorFile(const std::string& name);
  Json root() const;

 private:
  std::unique_ptr<capnp::MallocMessageBuilder> message_;
};

}  // namespace troupe::kernels
