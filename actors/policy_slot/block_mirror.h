// What a policy slot knows of the blocks of its tier, from events alone: enough to validate every
// answer and to rebuild a new policy by replaying inserts. Arrays by block handle; nothing here is
// a second truth, the prefix index checks every victim again.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/policy.h"

namespace troupe {

class BlockMirror {
 public:
  explicit BlockMirror(uint32_t capacity)
      : uses_(capacity, 0), children_(capacity, 0), parents_(capacity, kNone),
        resident_(capacity, 0), last_use_(capacity, 0), depth_(capacity, 0) {}

  void apply(const policy::Events& events) noexcept;
  policy::HostView view() const noexcept { return {uses_, children_, parents_, resident_}; }
  uint32_t capacity() const noexcept { return static_cast<uint32_t>(uses_.size()); }
  uint64_t resident() const noexcept { return resident_count_; }
  /// Blocks resident and not in use: as many as a complete answer can name.
  uint64_t idle() const noexcept { return idle_; }
  bool known(uint32_t block) const noexcept { return block < resident_.size(); }
  bool is_resident(uint32_t block) const noexcept { return resident_[block] != 0; }
  uint32_t uses(uint32_t block) const noexcept { return uses_[block]; }
  uint32_t children(uint32_t block) const noexcept { return children_[block]; }
  uint32_t parent(uint32_t block) const noexcept { return parents_[block]; }
  uint32_t depth(uint32_t block) const noexcept { return depth_[block]; }
  /// Ordinal of the last event batch that used the block.
  uint64_t last_use(uint32_t block) const noexcept { return last_use_[block]; }
  /// Resident blocks, least recently used first, deepest first among equals.
  std::vector<uint32_t> by_recency() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);
  uint64_t digest() const noexcept;

  static constexpr uint32_t kNone = 0xFFFFFFFFU;

 private:
  void insert(uint32_t block, uint32_t parent, uint32_t depth, bool in_use) noexcept;
  void remove(uint32_t block) noexcept;

  std::vector<uint32_t> uses_;
  std::vector<uint32_t> children_;
  std::vector<uint32_t> parents_;
  std::vector<uint8_t> resident_;
  std::vector<uint64_t> last_use_;
  std::vector<uint32_t> depth_;
  uint64_t resident_count_ = 0;
  uint64_t idle_ = 0;
  uint64_t batch_ = 0;
};

}  // namespace troupe
