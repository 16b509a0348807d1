// Binary heap over dense block handles with a position array: push, change and erase in O(log n).
// Order is (major, minor, block), all integers, so that it never depends on the heap's own
// arrangement.
#pragma once

#include "policies/sdk/blocks.h"

#include <stdint.h>
#include <vector>

namespace troupe::sdk {

struct Rank {
  int64_t major = 0;
  int64_t minor = 0;
};

class Heap {
 public:
  explicit Heap(uint32_t capacity) : place_(capacity, kNone) {}
  bool empty() const noexcept { return items_.empty(); }
  uint32_t size() const noexcept { return static_cast<uint32_t>(items_.size()); }
  bool holds(uint32_t b) const noexcept { return place_[b] != kNone; }
  /// Block with the smallest rank.
  uint32_t top() const noexcept { return items_.front().block; }
  const Rank& top_rank() const noexcept { return items_.front().rank; }

  void push(uint32_t b, const Rank& rank) {
    if (holds(b)) {
      erase(b);
    }
    items_.push_back(Item{rank, b});
    up(size() - 1);
  }
  void erase(uint32_t b) noexcept {
    const uint32_t at = place_[b];
    if (at == kNone) {
      return;
    }
    place_[b] = kNone;
    const Item last = items_.back();
    items_.pop_back();
    if (at == items_.size()) {
      return;
    }
    items_[at] = last;
    place_[last.block] = at;
    up(at);
    down(place_[last.block]);
  }
  uint32_t pop() noexcept {
    const uint32_t b = top();
    erase(b);
    return b;
  }

 private:
  struct Item {
    Rank rank;
    uint32_t block;
  };
  static bool less(const Item& a, const Item& b) noexcept {
    if (a.rank.major != b.rank.major) {
      return a.rank.major < b.rank.major;
    }
    if (a.rank.minor != b.rank.minor) {
      return a.rank.minor < b.rank.minor;
    }
    return a.block < b.block;
  }
  void up(uint32_t at) noexcept {
    const Item item = items_[at];
    while (at > 0 && less(item, items_[(at - 1) / 2])) {
      put(at, items_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    put(at, item);
  }
  void down(uint32_t at) noexcept {
    const Item item = items_[at];
    for (;;) {
      uint32_t child = 2 * at + 1;
      if (child >= items_.size()) {
        break;
      }
      if (child + 1 < items_.size() && less(items_[child + 1], items_[child])) {
        ++child;
      }
      if (!less(items_[child], item)) {
        break;
      }
      put(at, items_[child]);
      at = child;
    }
    put(at, item);
  }
  void put(uint32_t at, const Item& item) noexcept {
    items_[at] = item;
    place_[item.block] = at;
  }

  std::vector<Item> items_;
  std::vector<uint32_t> place_;
};

}  // namespace troupe::sdk
