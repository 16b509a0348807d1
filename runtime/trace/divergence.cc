#include "runtime/trace/divergence.h"

#include "runtime/core/routes.h"

#include <capnp/dynamic.h>
#include <capnp/pretty-print.h>

#include <algorithm>
#include <cstdio>

namespace troupe::trace {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;

constexpr size_t kValueTextMax = 120;

std::string shortened(std::string text, size_t limit) {
  if (text.size() > limit) {
    text.resize(limit);
    text += "…";
  }
  return text;
}

std::string value_text(const DynamicValue::Reader& value) {
  if (value.getType() == DynamicValue::DATA) {
    return std::to_string(value.as<capnp::Data>().size()) + " bytes";
  }
  return shortened(kj::str(value).cStr(), kValueTextMax);
}

std::string bytes_text(capnp::Data::Reader data, size_t at) {
  std::string text;
  for (size_t i = at; i < std::min(at + 8, data.size()); ++i) {
    char hex[4];
    std::snprintf(hex, sizeof(hex), "%02x", data[i]);
    text += hex;
  }
  return text;
}

std::optional<FieldDiff> diff(const std::string& at, const DynamicValue::Reader& a,
                              const DynamicValue::Reader& b);

std::optional<FieldDiff> diff_data(const std::string& at, capnp::Data::Reader a,
                                   capnp::Data::Reader b) {
  if (a.size() != b.size()) {
    return FieldDiff{at + ".size", std::to_string(a.size()), std::to_string(b.size())};
  }
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  if (x == a.end()) {
    return std::nullopt;
  }
  // Arrays in messages have elements of four bytes or a multiple.
  const size_t offset = static_cast<size_t>(x - a.begin()) / 4 * 4;
  return FieldDiff{at + "[byte " + std::to_string(offset) + "]", bytes_text(a, offset),
                   bytes_text(b, offset)};
}

std::optional<FieldDiff> diff_list(const std::string& at, DynamicList::Reader a,
                                   DynamicList::Reader b) {
  for (capnp::uint i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (auto found = diff(at + "[" + std::to_string(i) + "]", a[i], b[i])) {
      return found;
    }
  }
  if (a.size() != b.size()) {
    return FieldDiff{at + ".size", std::to_string(a.size()), std::to_string(b.size())};
  }
  return std::nullopt;
}

std::string member_name(DynamicStruct::Reader value) {
  KJ_IF_MAYBE (field, value.which()) {
    return field->getProto().getName().cStr();
  }
  return "unknown";
}

std::optional<FieldDiff> diff_struct(const std::string& at, DynamicStruct::Reader a,
                                     DynamicStruct::Reader b) {
  const std::string dot = at.empty() ? "" : at + ".";
  const auto compare = [&](capnp::StructSchema::Field field) {
    return diff(dot + field.getProto().getName().cStr(), a.get(field), b.get(field));
  };
  for (const auto field : a.getSchema().getNonUnionFields()) {
    if (auto found = compare(field)) {
      return found;
    }
  }
  if (a.getSchema().getUnionFields().size() == 0) {
    return std::nullopt;
  }
  const std::string member = member_name(a);
  if (member != member_name(b)) {
    return FieldDiff{at.empty() ? "kind" : at, member, member_name(b)};
  }
  KJ_IF_MAYBE (field, a.which()) {
    return compare(*field);
  }
  return std::nullopt;
}

std::optional<FieldDiff> diff(const std::string& at, const DynamicValue::Reader& a,
                              const DynamicValue::Reader& b) {
  switch (a.getType()) {
    case DynamicValue::STRUCT:
      return diff_struct(at, a.as<DynamicStruct>(), b.as<DynamicStruct>());
    case DynamicValue::LIST:
      return diff_list(at, a.as<DynamicList>(), b.as<DynamicList>());
    case DynamicValue::DATA:
      return diff_data(at, a.as<capnp::Data>(), b.as<capnp::Data>());
    default: {
      std::string x = value_text(a);
      std::string y = value_text(b);
      if (x == y) {
        return std::nullopt;
      }
      return FieldDiff{at, std::move(x), std::move(y)};
    }
  }
}

}  // namespace

std::optional<FieldDiff> first_difference(std::span<const capnp::word> expected,
                                          std::span<const capnp::word> got) {
  try {
    FrameReader a(expected);
    FrameReader b(got);
    return diff_struct("", DynamicStruct::Reader(a.message()), DynamicStruct::Reader(b.message()));
  } catch (const kj::Exception& error) {
    return FieldDiff{"", "a message", error.getDescription().cStr()};
  }
}

std::string message_text(std::span<const capnp::word> words, size_t limit) {
  try {
    FrameReader reader(words);
    return shortened(capnp::prettyPrint(DynamicStruct::Reader(reader.message())).flatten().cStr(),
                     limit);
  } catch (const kj::Exception& error) {
    return std::string("a message that can't be read: ") + error.getDescription().cStr();
  }
}

std::string Divergence::text() const {
  std::string line =
      actor + ", delivery " + std::to_string(seq) + " (" + kind_name(kind) + "): " + what;
  if (!field.field.empty()) {
    line += ": " + field.field + " is " + field.got + ", expected " + field.expected;
  }
  return line;
}

}  // namespace troupe::trace
