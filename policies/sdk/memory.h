// Keys of blocks that have left, each with a number: what a policy remembers of them beyond that
// they were here (ghosts.h is for those that need no more). Newest first, at most a fixed number;
// O(1).
#pragma once

#include "policies/sdk/ghosts.h"
#include "policies/sdk/lists.h"
#include "policies/sdk/state.h"

#include <stdint.h>
#include <vector>

namespace troupe::sdk {

class Memory {
 public:
  explicit Memory(uint32_t entries_max)
      : map_(entries_max), order_(entries_max, 1), keys_(entries_max), values_(entries_max) {
    for (uint32_t i = entries_max; i > 0; --i) {
      free_.push_back(i - 1);
    }
  }
  uint32_t size() const noexcept { return order_.size(0); }
  bool holds(uint64_t key) const noexcept { return map_.find(key) != kNone; }
  /// Enters as the newest, with this value; the oldest leaves when there is no room.
  void put(uint64_t key, int64_t value) noexcept {
    int64_t old = 0;
    take(key, old);
    if (free_.empty()) {
      if (size() == 0) {
        return;
      }
      drop(order_.back(0));
    }
    const uint32_t n = free_.back();
    free_.pop_back();
    keys_[n] = key;
    values_[n] = value;
    map_.put(key, n);
    order_.push_front(0, n);
  }
  /// True when the key was here; it leaves.
  bool take(uint64_t key, int64_t& value) noexcept {
    const uint32_t n = map_.find(key);
    if (n == kNone) {
      return false;
    }
    value = values_[n];
    drop(n);
    return true;
  }
  /// The newest, as many as `share` of the global record holds; older ones are forgotten by a swap.
  void save(GlobalWriter& w, uint32_t share) const {
    const uint32_t room = TROUPE_GLOBAL_STATE_BYTES_MAX / (16 * share) - 64;
    const uint32_t count = size() < room ? size() : room;
    w.number(count);
    uint32_t n = order_.front(0);
    for (uint32_t i = 0; i < count; ++i, n = order_.toward_back(n)) {
      w.number(static_cast<int64_t>(keys_[n]));
      w.number(values_[n]);
    }
  }
  void load(GlobalReader& r) {
    const int64_t count = r.number();
    if (count < 0 || count > static_cast<int64_t>(keys_.size())) {
      r.fail();
      return;
    }
    std::vector<std::pair<uint64_t, int64_t>> entries;
    for (int64_t i = 0; i < count && r.going(); ++i) {
      const auto key = static_cast<uint64_t>(r.number());
      entries.emplace_back(key, r.number());
    }
    while (size() > 0) {
      drop(order_.back(0));
    }
    for (size_t i = entries.size(); i > 0; --i) {
      put(entries[i - 1].first, entries[i - 1].second);
    }
  }

 private:
  void drop(uint32_t n) noexcept {
    map_.erase(keys_[n]);
    order_.unlink(n);
    free_.push_back(n);
  }
  KeyMap map_;
  Lists order_;
  std::vector<uint64_t> keys_;
  std::vector<int64_t> values_;
  std::vector<uint32_t> free_;
};

}  // namespace troupe::sdk
