// What every eviction policy needs to know of the prefix tree, kept from the events alone: who uses
// a block, who hangs below it, and hence whether it may be named now. Arrays by handle, 32 bytes a
// block.
//   evictable(b) = resident(b) and not named(b) and uses(b) = 0 and children(b) = 0
#pragma once

#include <stdint.h>
#include <vector>

namespace troupe::sdk {

constexpr uint32_t kNone = 0xffffffffU;

class Blocks {
 public:
  explicit Blocks(uint32_t capacity) : rows_(capacity) {}

  uint32_t capacity() const noexcept { return static_cast<uint32_t>(rows_.size()); }
  uint32_t resident_count() const noexcept { return resident_; }
  bool resident(uint32_t b) const noexcept { return rows_[b].state != kAbsent; }
  /// May be named as a victim now.
  bool evictable(uint32_t b) const noexcept {
    const Row& r = rows_[b];
    return r.state == kHere && r.uses == 0 && r.children == 0;
  }
  uint32_t uses(uint32_t b) const noexcept { return rows_[b].uses; }
  uint32_t children(uint32_t b) const noexcept { return rows_[b].children; }
  uint32_t parent(uint32_t b) const noexcept { return rows_[b].parent; }
  uint32_t depth(uint32_t b) const noexcept { return rows_[b].depth; }
  /// Content key: names the block after its handle has gone to another.
  uint64_t key(uint32_t b) const noexcept { return rows_[b].key; }

 private:
  template <class P>
  friend class Eviction;
  enum State : uint32_t { kAbsent = 0, kHere = 1, kNamed = 2 };
  struct Row {
    uint64_t key = 0;
    uint32_t parent = kNone;
    uint32_t depth = 0;
    uint32_t uses = 0;
    uint32_t children = 0;
    uint32_t state = kAbsent;
    uint32_t reserved = 0;
  };
  std::vector<Row> rows_;
  uint32_t resident_ = 0;
};

}  // namespace troupe::sdk
