#include "tests/kernels/vector_file.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace troupe::kernels {

Json Json::operator[](const char* name) const {
  REQUIRE(value_.isObject());
  for (const auto field : value_.getObject()) {
    if (field.getName() == name) {
      return Json(field.getValue());
    }
  }
  FAIL("no field " << name);
  std::abort();
}

Json Json::at(size_t index) const {
  REQUIRE(value_.isArray());
  REQUIRE(index < value_.getArray().size());
  return Json(value_.getArray()[static_cast<unsigned>(index)]);
}

size_t Json::size() const {
  REQUIRE(value_.isArray());
  return value_.getArray().size();
}

double Json::number() const {
  if (value_.isString()) {
    const std::string word = text();
    if (word == "nan" || word == "-nan") {
      return std::numeric_limits<double>::quiet_NaN();
    }
    REQUIRE((word == "inf" || word == "-inf"));
    return word == "inf" ? std::numeric_limits<double>::infinity()
                         : -std::numeric_limits<double>::infinity();
  }
  REQUIRE(value_.isNumber());
  return value_.getNumber();
}

std::string Json::text() const {
  REQUIRE(value_.isString());
  return value_.getString().cStr();
}

uint32_t Json::hex() const {
  return static_cast<uint32_t>(std::stoul(text(), nullptr, 16));
}

std::vector<float> Json::floats() const {
  std::vector<float> all;
  for (size_t i = 0; i < size(); ++i) {
    all.push_back(at(i).f32());
  }
  return all;
}

std::vector<float> Json::flat() const {
  std::vector<float> all;
  for (size_t i = 0; i < size(); ++i) {
    const std::vector<float> row = at(i).floats();
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

VectorFile::VectorFile(const std::string& name)
    : message_(std::make_unique<capnp::MallocMessageBuilder>()) {
  const std::string path = "tests/kernels/vectors/" + name;
  std::ifstream file(path);
  INFO("file " << path << " (tests run in the repository's root)");
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  const capnp::JsonCodec codec;
  codec.decodeRaw(kj::arrayPtr(content.data(), content.size()),
                  message_->initRoot<capnp::json::Value>());
}

Json VectorFile::root() const {
  return Json(message_->getRoot<capnp::json::Value>().asReader());
}

}  // namespace troupe::kernels
