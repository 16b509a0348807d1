// Free numbers 0 … n-1 as a bitmap with two levels of summary: the first free number at or behind a
// hint in a few word operations. Handles are taken behind each other where they can be, since
// chains of neighbouring handles need no table in the prefix index (see actors/prefix_index).
#pragma once

#include "runtime/base/assert.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

class IdPool {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFFU;

  explicit IdPool(uint32_t count) : count_(count), free_(count) {
    size_t words = (static_cast<size_t>(count) + 63) / 64;
    do {
      levels_.emplace_back(std::max<size_t>(words, 1), 0);
      words = (words + 63) / 64;
    } while (levels_.back().size() > 1);
    for (uint32_t i = 0; i < count; ++i) {
      set(i);
    }
  }

  /// Takes the first free number at or behind `hint`, else the first of all; kNone when none is
  /// left.
  uint32_t take(uint32_t hint) noexcept {
    uint32_t id = find(hint < count_ ? hint : 0);
    if (id == kNone) {
      id = find(0);
    }
    if (id != kNone) {
      clear(id);
      --free_;
    }
    return id;
  }
  void give(uint32_t id) noexcept {
    TROUPE_ASSERT(id < count_ && !is_free(id));
    set(id);
    ++free_;
  }
  /// Takes a given number that is free (restoring a snapshot).
  void take_exactly(uint32_t id) noexcept {
    TROUPE_ASSERT(id < count_ && is_free(id));
    clear(id);
    --free_;
  }
  bool is_free(uint32_t id) const noexcept {
    return ((levels_[0][id / 64] >> (id % 64)) & 1U) != 0;
  }
  uint32_t free() const noexcept { return free_; }
  uint32_t count() const noexcept { return count_; }

 private:
  void set(uint32_t id) noexcept {
    size_t at = id;
    for (auto& level : levels_) {
      const uint64_t before = level[at / 64];
      level[at / 64] |= 1ULL << (at % 64);
      if (before != 0) {
        return;
      }
      at /= 64;
    }
  }
  void clear(uint32_t id) noexcept {
    size_t at = id;
    for (auto& level : levels_) {
      level[at / 64] &= ~(1ULL << (at % 64));
      if (level[at / 64] != 0) {
        return;
      }
      at /= 64;
    }
  }
  /// First set bit at or behind `from`.
  uint32_t find(uint32_t from) const noexcept {
    size_t at = from;
    size_t level = 0;
    while (true) {
      if (at / 64 >= levels_[level].size()) {
        return kNone;
      }
      const uint64_t rest = levels_[level][at / 64] & (~0ULL << (at % 64));
      if (rest != 0) {
        at = at / 64 * 64 + static_cast<size_t>(std::countr_zero(rest));
        while (level > 0) {
          --level;
          at = at * 64 + static_cast<size_t>(std::countr_zero(levels_[level][at]));
        }
        return static_cast<uint32_t>(at);
      }
      at = at / 64 + 1;
      if (++level == levels_.size()) {
        return kNone;
      }
    }
  }

  uint32_t count_;
  uint32_t free_;
  std::vector<std::vector<uint64_t>> levels_;  // bit set: free (level 0), or a free one below
};

}  // namespace troupe
