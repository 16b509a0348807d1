// ARC: two LRU lists, seen once (T1) and seen again (T2), each with ghosts (B1, B2); hits on the
// ghosts move the target p for the size of T1. Megiddo, Modha, "ARC: a self-tuning, low overhead
// replacement cache", FAST 2003. Changed: a block that may not go is passed over; the target moves
// when the block that was missed waits for room, which is where the paper's case II and III stand.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <algorithm>

namespace {
using namespace troupe::sdk;

constexpr uint8_t kOnce = 0;
constexpr uint8_t kAgain = 1;

struct Arc {
  static constexpr Describe kAbout{
      .id = "arc", .paper = "Megiddo, Modha, FAST 2003", .flags = TROUPE_FLAG_OBJECT_ORDER};
  using Record = Lists::Place;

  Arc(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        capacity_(c.capacity),
        lists_(c.capacity, 2),
        once_gone_(c.capacity),
        again_gone_(c.capacity),
        known_(c.capacity) {}

  void on_insert(const NewBlock& n, const Moment&) {
    const bool known = known_.take(n.key) || seen_before(n.key);
    lists_.push_front(known ? kAgain : kOnce, n.block);
  }
  void on_hit(uint32_t b, const Moment&) { lists_.move_front(kAgain, b); }
  void on_remove(uint32_t b) { lists_.drop(b); }
  void before_victim(uint64_t key) {
    again_ghost_asks_ = again_gone_.holds(key);
    fresh_asks_ = !again_ghost_asks_ && !once_gone_.holds(key);
    if (seen_before(key)) {
      known_.push(key);
    }
  }
  uint32_t victim() {
    const uint32_t once = lists_.size(kOnce);
    if (fresh_asks_ && once + once_gone_.size() >= capacity_) {
      if (once < capacity_) {
        once_gone_.drop_oldest();
      } else {
        return take(kOnce, nullptr);
      }
    } else if (fresh_asks_ && blocks_.resident_count() + once_gone_.size() + again_gone_.size() >=
                                  2ULL * capacity_) {
      again_gone_.drop_oldest();
    }
    const bool from_once = once > 0 && (once > target_ || (once == target_ && again_ghost_asks_));
    uint32_t b = from_once ? take(kOnce, &once_gone_) : take(kAgain, &again_gone_);
    if (b == kNone) {
      b = from_once ? take(kAgain, &again_gone_) : take(kOnce, &once_gone_);
    }
    return b;
  }
  Record save(uint32_t b) const { return lists_.save(b); }
  bool load(uint32_t b, const Record& r) { return lists_.load(b, r); }
  void save_global(GlobalWriter& w) const {
    w.stamps(lists_);
    w.number(target_);
    w.ghosts(once_gone_, 3);
    w.ghosts(again_gone_, 3);
  }
  void load_global(GlobalReader& r) {
    lists_.finish_load();
    r.stamps(lists_);
    target_ = static_cast<uint32_t>(std::clamp<int64_t>(r.number(), 0, capacity_));
    r.ghosts(once_gone_);
    r.ghosts(again_gone_);
  }

 private:
  bool seen_before(uint64_t key) {
    const uint32_t b1 = once_gone_.size();
    const uint32_t b2 = again_gone_.size();
    if (once_gone_.take(key)) {
      target_ = std::min(capacity_, target_ + std::max(1U, b2 / b1));
      return true;
    }
    if (again_gone_.take(key)) {
      const uint32_t step = std::max(1U, b1 / b2);
      target_ -= std::min(target_, step);
      return true;
    }
    return false;
  }
  uint32_t take(uint8_t list, Ghosts* ghosts) {
    for (uint32_t b = lists_.back(list); b != kNone; b = lists_.toward_front(b)) {
      if (blocks_.evictable(b)) {
        lists_.unlink(b);
        if (ghosts != nullptr) {
          ghosts->push(blocks_.key(b));
        }
        return b;
      }
    }
    return kNone;
  }

  const Blocks& blocks_;
  uint32_t capacity_;
  Lists lists_;
  Ghosts once_gone_;
  Ghosts again_gone_;
  Ghosts known_;  // former ghosts among the blocks that wait for room
  uint32_t target_ = 0;
  bool again_ghost_asks_ = false;
  bool fresh_asks_ = true;
};

}  // namespace

TROUPE_EVICTION_POLICY(Arc)
