// What a policy slot knows of the blocks of its tier, from events alone: enough to validate every
// answer, to name victims itself, and to tell a policy that comes what is there. Arrays by block
// handle and one list by recency; nothing here is a second truth, the prefix index checks every
// victim again. Invariant: in the list a resident child stands before its parent (it is older).
#pragma once

#include "runtime/core/policy.h"

#include <cstdint>
#include <vector>

namespace troupe {

class BlockMirror {
 public:
  explicit BlockMirror(uint32_t capacity);

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
  uint32_t tokens(uint32_t block) const noexcept { return tokens_[block]; }
  uint32_t tenant(uint32_t block) const noexcept { return tenant_[block]; }
  uint64_t key(uint32_t block) const noexcept { return keys_[block]; }
  uint64_t bytes(uint32_t block) const noexcept { return sizes_[size_[block]]; }
  /// Lookups that used the block since it came, at most 255.
  uint8_t hits(uint32_t block) const noexcept { return hits_[block]; }

  /// Resident blocks by recency: oldest() first, then newer_than(…), until kNone.
  uint32_t oldest() const noexcept { return next(capacity()); }
  uint32_t newer_than(uint32_t block) const noexcept { return next(block); }
  /// One bookmark for whoever walks that list while it changes: blocks that move go to the end, and
  /// the walk meets them there.
  void mark_oldest() noexcept { mark_ = newer_[capacity()]; }
  uint32_t marked() const noexcept { return mark_ == capacity() ? kNone : mark_; }
  void mark_next() noexcept { mark_ = newer_[mark_]; }

  Status save(StateSink& sink) const;
  Status load(StateSource& source);
  Status check() const;
  uint64_t digest() const noexcept;

  static constexpr uint32_t kNone = 0xFFFFFFFFU;

 private:
  bool insert(const policy::Events& events, size_t i) noexcept;
  void remove(uint32_t block) noexcept;
  void unlink(uint32_t block) noexcept;
  void append(uint32_t block) noexcept;
  void renew(uint32_t block) noexcept {
    unlink(block);
    append(block);
  }
  uint8_t size_class(uint64_t bytes) noexcept;
  uint32_t next(uint32_t block) const noexcept {
    return newer_[block] == capacity() ? kNone : newer_[block];
  }

  std::vector<uint32_t> uses_;
  std::vector<uint32_t> children_;
  std::vector<uint32_t> parents_;
  std::vector<uint8_t> resident_;
  std::vector<uint32_t> depth_;
  std::vector<uint32_t> tokens_;
  std::vector<uint32_t> tenant_;
  std::vector<uint64_t> keys_;
  std::vector<uint8_t> hits_;
  std::vector<uint8_t> size_;       // index of sizes_
  std::vector<uint64_t> sizes_{0};  // bytes of a block, as far as they differ
  std::vector<uint32_t> newer_;     // circular, through the sentinel `capacity`
  std::vector<uint32_t> older_;
  std::vector<uint32_t> fresh_;  // scratch: blocks that a batch inserted
  uint32_t mark_ = 0;
  uint64_t resident_count_ = 0;
  uint64_t idle_ = 0;
};

}  // namespace troupe
