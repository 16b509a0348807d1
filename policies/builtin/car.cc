// CAR: ARC with two clocks instead of two LRU lists, so that a hit only sets a bit. T1 holds blocks
// seen once, T2 those seen again; ghosts B1 and B2 move the target p for the size of T1. Bansal,
// Modha, "CAR: clock with adaptive replacement", FAST 2004. Changed: a block that may not go is
// passed over.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <algorithm>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint8_t kOnce = 0;
constexpr uint8_t kAgain = 1;

struct Car {
  static constexpr Describe kAbout{
      .id = "car", .paper = "Bansal, Modha, FAST 2004", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    Lists::Place place;
    uint64_t referenced;
  };

  Car(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        capacity_(c.capacity),
        clocks_(c.capacity, 2),
        referenced_(c.capacity, 0),
        once_gone_(c.capacity),
        again_gone_(2 * c.capacity),
        known_(c.capacity) {}

  void on_wanted(uint64_t key) {  // room is there: the history is cut, the target moves
    if (seen_before(key)) {
      known_.push(key);
      return;
    }
    const uint32_t once = clocks_.size(kOnce);
    if (once + once_gone_.size() >= capacity_) {
      once_gone_.drop_oldest();
    } else if (once + clocks_.size(kAgain) + once_gone_.size() + again_gone_.size() >=
               2 * capacity_) {
      again_gone_.drop_oldest();
    }
  }
  void on_insert(const NewBlock& n, const Moment&) {
    const bool known = known_.take(n.key) || seen_before(n.key);
    referenced_[n.block] = 0;
    clocks_.push_front(known ? kAgain : kOnce, n.block);
  }
  void on_hit(uint32_t b, const Moment&) { referenced_[b] = 1; }
  void on_remove(uint32_t b) { clocks_.drop(b); }
  uint32_t victim() {
    // Each turn clears a bit or passes a block over: three turns a block meet every case.
    const uint64_t turns = 3ULL * (clocks_.size(kOnce) + clocks_.size(kAgain));
    for (uint64_t turn = 0; turn < turns; ++turn) {
      const uint32_t once = clocks_.size(kOnce);
      const bool from_once = once > 0 && (stuck_ < once) &&
                             (once >= std::max(1U, target_) || clocks_.size(kAgain) == 0);
      const uint8_t clock = from_once || clocks_.size(kAgain) == 0 ? kOnce : kAgain;
      const uint32_t b = clocks_.back(clock);
      if (!blocks_.evictable(b)) {
        clocks_.move_front(clock, b);
        stuck_ += clock == kOnce ? 1 : 0;
      } else if (referenced_[b] != 0) {
        referenced_[b] = 0;
        clocks_.move_front(kAgain, b);
      } else {
        clocks_.unlink(b);
        (clock == kOnce ? once_gone_ : again_gone_).push(blocks_.key(b));
        stuck_ = 0;
        return b;
      }
    }
    stuck_ = 0;
    return any();
  }
  Record save(uint32_t b) const { return {clocks_.save(b), referenced_[b]}; }
  bool load(uint32_t b, const Record& r) {
    referenced_[b] = r.referenced != 0 ? 1 : 0;
    return clocks_.load(b, r.place);
  }
  void save_global(GlobalWriter& w) const {
    w.stamps(clocks_);
    w.number(target_);
    w.ghosts(once_gone_, 3);
    w.ghosts(again_gone_, 3);
  }
  void load_global(GlobalReader& r) {
    clocks_.finish_load();
    r.stamps(clocks_);
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
      target_ -= std::min(target_, std::max(1U, b1 / b2));
      return true;
    }
    return false;
  }
  // The clocks went round without finding one, since much is in use: the first that may go.
  uint32_t any() {
    for (const uint8_t clock : {kOnce, kAgain}) {
      for (uint32_t b = clocks_.back(clock); b != kNone; b = clocks_.toward_front(b)) {
        if (blocks_.evictable(b)) {
          clocks_.unlink(b);
          (clock == kOnce ? once_gone_ : again_gone_).push(blocks_.key(b));
          return b;
        }
      }
    }
    return kNone;
  }

  const Blocks& blocks_;
  uint32_t capacity_;
  Lists clocks_;
  std::vector<uint8_t> referenced_;
  Ghosts once_gone_;
  Ghosts again_gone_;
  Ghosts known_;  // former ghosts among the blocks that wait for room
  uint32_t target_ = 0;
  uint32_t stuck_ = 0;  // blocks of T1 passed over in this search
};

}  // namespace

TROUPE_EVICTION_POLICY(Car)
