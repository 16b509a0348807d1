// Keys of blocks that have left, newest first, at most a fixed number: the memory of ARC, 2Q,
// S3-FIFO, LIRS and their like. Lookup and removal by content key in O(1); the oldest falls out by
// itself.
#pragma once

#include "policies/sdk/blocks.h"

#include <stdint.h>
#include <vector>

namespace troupe::sdk {

/// Content key -> small number, open addressing with backward-shift deletion. Never grows.
class KeyMap {
 public:
  explicit KeyMap(uint32_t entries_max) {
    uint64_t size = 4;
    while (size < 2 * static_cast<uint64_t>(entries_max) + 2) {
      size *= 2;
    }
    slots_.resize(size);
    mask_ = size - 1;
  }
  uint32_t find(uint64_t key) const noexcept {
    for (uint64_t i = home(key); slots_[i].value != kNone; i = (i + 1) & mask_) {
      if (slots_[i].key == key) {
        return slots_[i].value;
      }
    }
    return kNone;
  }
  void put(uint64_t key, uint32_t value) noexcept {
    uint64_t i = home(key);
    while (slots_[i].value != kNone && slots_[i].key != key) {
      i = (i + 1) & mask_;
    }
    slots_[i] = Slot{key, value};
  }
  void erase(uint64_t key) noexcept {
    uint64_t i = home(key);
    while (slots_[i].value != kNone && slots_[i].key != key) {
      i = (i + 1) & mask_;
    }
    if (slots_[i].value == kNone) {
      return;
    }
    for (uint64_t j = (i + 1) & mask_; slots_[j].value != kNone; j = (j + 1) & mask_) {
      const uint64_t from = home(slots_[j].key);
      if (((j - from) & mask_) >= ((j - i) & mask_)) {
        slots_[i] = slots_[j];
        i = j;
      }
    }
    slots_[i].value = kNone;
  }
  static uint64_t mix(uint64_t x) noexcept {
    x = (x ^ (x >> 32)) * 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 32);
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t value = kNone;
    uint32_t reserved = 0;
  };
  uint64_t home(uint64_t key) const noexcept { return mix(key) & mask_; }
  std::vector<Slot> slots_;
  uint64_t mask_ = 0;
};

class Ghosts {
 public:
  explicit Ghosts(uint32_t entries_max)
      : max_(entries_max), map_(entries_max), nodes_(entries_max + 1U) {
    nodes_[max_] = Node{0, max_, max_};
    free_.reserve(entries_max);
    for (uint32_t i = entries_max; i > 0; --i) {
      free_.push_back(i - 1);
    }
  }
  uint32_t size() const noexcept { return max_ - static_cast<uint32_t>(free_.size()); }
  uint32_t limit() const noexcept { return max_; }
  bool holds(uint64_t key) const noexcept { return map_.find(key) != kNone; }
  /// Enters as the newest; the oldest leaves when there is no room. A key that is here already
  /// stays where it is.
  void push(uint64_t key) noexcept {
    if (max_ == 0 || holds(key)) {
      return;
    }
    if (free_.empty()) {
      drop_oldest();
    }
    const uint32_t n = free_.back();
    free_.pop_back();
    const uint32_t first = nodes_[max_].next;
    nodes_[n] = Node{key, max_, first};
    nodes_[first].prev = n;
    nodes_[max_].next = n;
    map_.put(key, n);
  }
  /// True when the key was here; it leaves.
  bool take(uint64_t key) noexcept {
    const uint32_t n = map_.find(key);
    if (n == kNone) {
      return false;
    }
    remove_node(n);
    return true;
  }
  void drop_oldest() noexcept {
    if (nodes_[max_].prev != max_) {
      remove_node(nodes_[max_].prev);
    }
  }
  void clear() noexcept {
    while (size() > 0) {
      drop_oldest();
    }
  }
  /// The newest `limit` keys, newest first.
  std::vector<uint64_t> newest(uint32_t limit) const {
    std::vector<uint64_t> keys;
    for (uint32_t n = nodes_[max_].next; n != max_ && keys.size() < limit; n = nodes_[n].next) {
      keys.push_back(nodes_[n].key);
    }
    return keys;
  }

 private:
  struct Node {
    uint64_t key = 0;
    uint32_t prev = 0;
    uint32_t next = 0;
  };
  void remove_node(uint32_t n) noexcept {
    map_.erase(nodes_[n].key);
    nodes_[nodes_[n].prev].next = nodes_[n].next;
    nodes_[nodes_[n].next].prev = nodes_[n].prev;
    free_.push_back(n);
  }
  uint32_t max_;
  KeyMap map_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> free_;
};

}  // namespace troupe::sdk
