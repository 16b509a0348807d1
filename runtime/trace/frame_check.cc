#include "runtime/trace/frame_check.h"

#include <capnp/schema.h>

#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe::trace {
namespace {

enum class Want : uint8_t { kText, kData, kStruct, kStructList, kPrimitiveList };

struct Shape;

/// One pointer field of a struct. In a union it counts only while its discriminant is set.
struct PointerField {
  uint16_t index = 0;
  uint16_t discriminant = 0xFFFF;  // 0xFFFF: no union member
  Want want = Want::kData;
  uint8_t element_size = 0;      // of a primitive list, as encoded
  const Shape* shape = nullptr;  // of a struct or of the elements
};

struct Shape {
  std::string name;
  uint32_t discriminant_at = 0;  // [2 bytes]; meaningful when a field is a union member
  std::vector<PointerField> fields;
};

uint8_t encoded_size(capnp::schema::Type::Which which) {
  using W = capnp::schema::Type::Which;
  switch (which) {
    case W::VOID:
      return 0;
    case W::BOOL:
      return 1;
    case W::INT8:
    case W::UINT8:
      return 2;
    case W::INT16:
    case W::UINT16:
    case W::ENUM:
      return 3;
    case W::INT32:
    case W::UINT32:
    case W::FLOAT32:
      return 4;
    default:
      return 5;
  }
}

/// All structs reachable from Message, as tables. Schemas here have no groups and no lists of
/// lists.
class Shapes {
 public:
  Shapes() : root_(shape_of(capnp::Schema::from<wire::Message>())) {}
  const Shape& root() const noexcept { return *root_; }

 private:
  const Shape* shape_of(capnp::StructSchema schema) {
    const uint64_t id = schema.getProto().getId();
    if (const auto known = by_id_.find(id); known != by_id_.end()) {
      return known->second.get();
    }
    Shape* shape = by_id_.emplace(id, std::make_unique<Shape>()).first->second.get();
    shape->name = schema.getShortDisplayName().cStr();
    shape->discriminant_at = schema.getProto().getStruct().getDiscriminantOffset();
    for (const capnp::StructSchema::Field field : schema.getFields()) {
      TROUPE_ASSERT(field.getProto().isSlot());
      PointerField entry;
      entry.index = static_cast<uint16_t>(field.getProto().getSlot().getOffset());
      entry.discriminant = field.getProto().getDiscriminantValue();
      if (describe(field.getType(), entry)) {
        shape->fields.push_back(entry);
      }
    }
    return shape;
  }
  bool describe(capnp::Type type, PointerField& entry) {
    if (type.isText() || type.isData()) {
      entry.want = type.isText() ? Want::kText : Want::kData;
      return true;
    }
    if (type.isStruct()) {
      entry.want = Want::kStruct;
      entry.shape = shape_of(type.asStruct());
      return true;
    }
    if (!type.isList()) {
      return false;
    }
    const capnp::Type element = type.asList().getElementType();
    if (element.isStruct()) {
      entry.want = Want::kStructList;
      entry.shape = shape_of(element.asStruct());
      return true;
    }
    TROUPE_ASSERT(!element.isText() && !element.isData() && !element.isList());
    entry.want = Want::kPrimitiveList;
    entry.element_size = encoded_size(element.which());
    return true;
  }
  std::unordered_map<uint64_t, std::unique_ptr<Shape>> by_id_;
  const Shape* root_;
};

struct Section {
  size_t data = 0;  // first word
  uint32_t data_words = 0;
  uint32_t pointers = 0;
};

class Walk {
 public:
  explicit Walk(std::span<const capnp::word> words) : words_(words) {}

  Status root(const Shape& shape) {
    if (words_.empty()) {
      return bad(shape, "the frame is empty");
    }
    used_ = 1;
    return struct_pointer(0, shape, 0);
  }

 private:
  static constexpr int kDepthMax = 16;
  uint64_t word(size_t at) const noexcept {
    uint64_t value = 0;
    std::memcpy(&value, &words_[at], sizeof(value));
    return value;
  }
  static Status bad(const Shape& shape, const char* what) {
    return Status(Code::kCorrupt, shape.name + ": " + what);
  }
  /// Where a near pointer leads. `size` [words] must lie in the frame. All sizes together must too,
  /// or a few words that are pointed at again and again would stand for a message of any length.
  bool target(size_t at, uint64_t pointer, uint64_t size, size_t& start) {
    const auto offset = static_cast<int64_t>(static_cast<int32_t>(pointer)) >> 2;
    const int64_t first = static_cast<int64_t>(at) + 1 + offset;
    if (first < 0 || static_cast<uint64_t>(first) > words_.size() ||
        size > words_.size() - static_cast<uint64_t>(first)) {
      return false;
    }
    used_ += size;
    if (used_ > words_.size()) {
      return false;
    }
    start = static_cast<size_t>(first);
    return true;
  }
  Status struct_pointer(size_t at, const Shape& shape, int depth) {
    const uint64_t pointer = word(at);
    if (pointer == 0) {
      return Status::ok();
    }
    Section section;
    section.data_words = static_cast<uint32_t>((pointer >> 32) & 0xFFFF);
    section.pointers = static_cast<uint32_t>(pointer >> 48);
    const uint64_t size = uint64_t{section.data_words} + section.pointers;
    if ((pointer & 3) != 0 || !target(at, pointer, size, section.data)) {
      return bad(shape, "a struct pointer leads out of the frame or is none");
    }
    return struct_body(section, shape, depth);
  }
  Status struct_body(const Section& section, const Shape& shape, int depth) {
    if (depth > kDepthMax) {
      return bad(shape, "nested too deep");
    }
    for (const PointerField& field : shape.fields) {
      if (field.index >= section.pointers || !is_set(section, shape, field)) {
        continue;
      }
      const size_t at = section.data + section.data_words + field.index;
      TROUPE_TRY(field.want == Want::kStruct ? struct_pointer(at, *field.shape, depth + 1)
                                             : list_pointer(at, shape, field, depth + 1));
    }
    return Status::ok();
  }
  bool is_set(const Section& section, const Shape& shape, const PointerField& field) const {
    if (field.discriminant == 0xFFFF) {
      return true;
    }
    const size_t at_word = shape.discriminant_at / 4;
    const uint64_t value =
        at_word < section.data_words
            ? (word(section.data + at_word) >> (16 * (shape.discriminant_at % 4))) & 0xFFFF
            : 0;
    return value == field.discriminant;
  }
  Status list_pointer(size_t at, const Shape& shape, const PointerField& field, int depth) {
    const uint64_t pointer = word(at);
    if (pointer == 0) {
      return Status::ok();
    }
    const auto size_code = static_cast<uint8_t>((pointer >> 32) & 7);
    const uint64_t count = pointer >> 35;
    const uint8_t wanted = field.want == Want::kStructList      ? 7
                           : field.want == Want::kPrimitiveList ? field.element_size
                                                                : 2;
    if ((pointer & 3) != 1 || size_code != wanted) {
      return bad(shape, "a list pointer is none, or of another element type");
    }
    static constexpr uint64_t kBits[] = {0, 1, 8, 16, 32, 64, 64};
    size_t start = 0;
    const uint64_t words = size_code == 7 ? count + 1 : (count * kBits[size_code] + 63) / 64;
    if (!target(at, pointer, words, start)) {
      return bad(shape, "a list leads out of the frame");
    }
    if (field.want == Want::kText) {
      const auto* bytes = reinterpret_cast<const char*>(&words_[0] + start);
      return count > 0 && bytes[count - 1] == 0 ? Status::ok() : bad(shape, "a text has no end");
    }
    return field.want == Want::kStructList ? elements(start, count, shape, field, depth)
                                           : Status::ok();
  }
  Status elements(size_t start, uint64_t words, const Shape& shape, const PointerField& field,
                  int depth) {
    const uint64_t tag = word(start);
    const uint64_t count = (tag & 0xFFFFFFFF) >> 2;
    Section section;
    section.data_words = static_cast<uint32_t>((tag >> 32) & 0xFFFF);
    section.pointers = static_cast<uint32_t>(tag >> 48);
    const uint64_t size = uint64_t{section.data_words} + section.pointers;
    // Elements of no size would let a few bytes stand for half a billion elements.
    if ((tag & 3) != 0 || (size == 0 && count > 0) || count * size > words) {
      return bad(shape, "a list of structs is longer than its words");
    }
    if (field.shape->fields.empty()) {
      return Status::ok();
    }
    for (uint64_t i = 0; i < count; ++i) {
      section.data = start + 1 + static_cast<size_t>(i * size);
      TROUPE_TRY(struct_body(section, *field.shape, depth));
    }
    return Status::ok();
  }
  std::span<const capnp::word> words_;
  uint64_t used_ = 0;
};

}  // namespace

Status check_frame(std::span<const capnp::word> words) {
  static const Shapes shapes;
  return Walk(words).root(shapes.root());
}

}  // namespace troupe::trace
