// Segmented LRU: a hit moves a block one segment up, and what a full segment loses goes to the
// front of the one below; the back of the lowest leaves. Karedla, Love, Wherry, "Caching strategies
// to improve disk system performance", IEEE Computer 1994, with two segments; four equal ones here,
// as libCacheSim has them. While the cache fills, newcomers enter the lowest segment that has room.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <algorithm>

namespace {
using namespace troupe::sdk;

constexpr uint8_t kSegments = 4;

struct Slru {
  static constexpr Describe kAbout{.id = "slru",
                                   .paper = "Karedla, Love, Wherry, IEEE Computer 1994",
                                   .flags = TROUPE_FLAG_OBJECT_ORDER};
  using Record = Lists::Place;

  Slru(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        most_(std::max(1U, c.capacity / kSegments)),
        lists_(c.capacity, kSegments) {}
  void on_insert(const NewBlock& n, const Moment&) {
    uint8_t to = 0;
    while (to + 1 < kSegments && lists_.size(to) >= most_) {
      ++to;
    }
    lists_.push_front(lists_.size(to) < most_ ? to : uint8_t{0}, n.block);
  }
  void on_hit(uint32_t b, const Moment&) {
    uint8_t at = lists_.list_of(b);
    if (at + 1 == kSegments) {
      lists_.move_front(at, b);
      return;
    }
    ++at;
    lists_.move_front(at, b);
    for (; at > 0 && lists_.size(at) > most_; --at) {
      lists_.move_front(static_cast<uint8_t>(at - 1), lists_.back(at));
    }
  }
  void on_remove(uint32_t b) { lists_.drop(b); }
  uint32_t victim() {
    for (uint8_t l = 0; l < kSegments; ++l) {
      for (uint32_t b = lists_.back(l); b != kNone; b = lists_.toward_front(b)) {
        if (blocks_.evictable(b)) {
          lists_.unlink(b);
          return b;
        }
      }
    }
    return kNone;
  }
  Record save(uint32_t b) const { return lists_.save(b); }
  bool load(uint32_t b, const Record& r) { return lists_.load(b, r); }
  void save_global(GlobalWriter& w) const { w.stamps(lists_); }
  void load_global(GlobalReader& r) {
    lists_.finish_load();
    r.stamps(lists_);
  }

 private:
  const Blocks& blocks_;
  uint32_t most_;  // blocks of a segment
  Lists lists_;
};

}  // namespace

TROUPE_EVICTION_POLICY(Slru)
