// Open-addressing table from (hash) to block, for the children that do not lie right behind their
// parent. Linear probing with backward-shift deletion, so there are no tombstones; its size is
// fixed at construction, so there is no growth pause. Its layout depends on history and is never
// iterated. Entries of equal hash stay in any order: the caller's predicate tells them apart.
#pragma once

#include "runtime/base/assert.h"
#include "runtime/core/wire.h"

#include <cstdint>
#include <vector>

namespace troupe::prefix {

class KeyTable {
 public:
  /// `capacity`: entries at most. Takes 12 bytes an entry.
  explicit KeyTable(uint32_t capacity)
      : cells_(static_cast<size_t>(capacity) + capacity / 2 + 16, Cell{0, kNoBlock}) {}

  /// First block of this hash for which `same(block)` holds, or kNoBlock.
  template <class Same>
  uint32_t find(uint32_t hash, Same&& same) const noexcept {
    for (size_t i = home(hash);; i = next(i)) {
      const Cell& cell = cells_[i];
      if (cell.block == kNoBlock) {
        return kNoBlock;
      }
      if (cell.hash == hash && same(cell.block)) {
        return cell.block;
      }
    }
  }

  void insert(uint32_t hash, uint32_t block) noexcept {
    TROUPE_ASSERT(++used_ < cells_.size());
    size_t i = home(hash);
    while (cells_[i].block != kNoBlock) {
      i = next(i);
    }
    cells_[i] = Cell{hash, block};
  }

  /// The entry must be there.
  void erase(uint32_t hash, uint32_t block) noexcept {
    size_t hole = home(hash);
    while (cells_[hole].block != block) {
      TROUPE_ASSERT(cells_[hole].block != kNoBlock);
      hole = next(hole);
    }
    for (size_t i = next(hole); cells_[i].block != kNoBlock; i = next(i)) {
      // An entry may move back into the hole unless its home lies behind the hole.
      if (distance(home(cells_[i].hash), i) >= distance(hole, i)) {
        cells_[hole] = cells_[i];
        hole = i;
      }
    }
    cells_[hole] = Cell{0, kNoBlock};
    --used_;
  }

  void prefetch(uint32_t hash) const noexcept { __builtin_prefetch(&cells_[home(hash)]); }
  /// A block whose key may be the one looked for, without reading the block: to prefetch it.
  uint32_t guess(uint32_t hash) const noexcept {
    for (size_t i = home(hash); cells_[i].block != kNoBlock; i = next(i)) {
      if (cells_[i].hash == hash) {
        return cells_[i].block;
      }
    }
    return kNoBlock;
  }
  size_t size() const noexcept { return used_; }
  size_t bytes() const noexcept { return cells_.size() * sizeof(Cell); }
  void clear() noexcept {
    cells_.assign(cells_.size(), Cell{0, kNoBlock});
    used_ = 0;
  }

 private:
  struct Cell {
    uint32_t hash;
    uint32_t block;
  };
  size_t home(uint32_t hash) const noexcept {
    return static_cast<size_t>((static_cast<uint64_t>(hash) * cells_.size()) >> 32);
  }
  size_t next(size_t i) const noexcept { return i + 1 == cells_.size() ? 0 : i + 1; }
  size_t distance(size_t from, size_t to) const noexcept {
    return to >= from ? to - from : to + cells_.size() - from;
  }

  std::vector<Cell> cells_;
  size_t used_ = 0;
};

}  // namespace troupe::prefix
