// LeCaR: LRU and LFU as two experts, one drawn for each victim by its weight; a block that comes
// back while it is remembered costs the expert that let it go, the more the sooner it came back.
// Vietri, Rodriguez, Martinez, Lyons, Liu, Rangaswami, Zhao, Narasimhan, "Driving cache replacement
// with ML-based LeCaR", HotStorage 2018. Learning rate 0.45, discount 0.005^(1/N); weights are
// fixed point. One memory of N blocks serves both experts.
#include "policies/sdk/eviction.h"
#include "policies/sdk/fixed.h"
#include "policies/sdk/heap.h"
#include "policies/sdk/lists.h"
#include "policies/sdk/memory.h"

#include <algorithm>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr int64_t kRate = kOne * 45 / 100;
constexpr int64_t kDiscount = 22755862618;  // -ln 0.005 · 2^32
constexpr int64_t kWeightMin = kOne / 1000000;

struct LeCaR {
  static constexpr Describe kAbout{
      .id = "lecar", .paper = "Vietri et al., HotStorage 2018", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    Lists::Place place;
    int64_t count, since;
  };

  LeCaR(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        capacity_(c.capacity),
        recent_(c.capacity, 1),
        frequent_(c.capacity),
        uses_(c.capacity),
        gone_(c.capacity),
        draws_(c.seed) {}

  void before_victim(uint64_t key) { learn(key); }
  void on_insert(const NewBlock& n, const Moment&) {
    learn(n.key);
    uses_[n.block] = {1, ++clock_};
    recent_.push_front(0, n.block);
  }
  void on_hit(uint32_t b, const Moment&) {
    uses_[b] = {uses_[b].count + 1, ++clock_};
    recent_.move_front(0, b);
  }
  void on_leaf(uint32_t b) { frequent_.push(b, {uses_[b].count, uses_[b].since}); }
  void on_no_leaf(uint32_t b) { frequent_.erase(b); }
  void on_remove(uint32_t b) { recent_.drop(b); }
  uint32_t victim() {
    if (frequent_.empty()) {
      return kNone;
    }
    constexpr uint32_t kSteps = 1U << 30;
    const bool by_lru = static_cast<int64_t>(draws_.below(kSteps)) * 4 < lru_weight_;
    uint32_t b = frequent_.top();
    if (by_lru) {
      b = recent_.back(0);
      while (b != kNone && !blocks_.evictable(b)) {
        b = recent_.toward_front(b);
      }
      if (b == kNone) {
        b = frequent_.top();
      }
    }
    frequent_.erase(b);
    recent_.unlink(b);
    gone_.put(blocks_.key(b), clock_ * 2 + (by_lru ? 1 : 0));
    return b;
  }
  Record save(uint32_t b) const { return {recent_.save(b), uses_[b].count, uses_[b].since}; }
  bool load(uint32_t b, const Record& r) {
    uses_[b] = {r.count, r.since};
    return recent_.load(b, r.place);
  }
  void save_global(GlobalWriter& w) const {
    w.stamps(recent_);
    w.number(clock_);
    w.number(lru_weight_);
    w.number(draws_.state());
    gone_.save(w, 2);
  }
  void load_global(GlobalReader& r) {
    recent_.finish_load();
    r.stamps(recent_);
    clock_ = r.number();
    lru_weight_ = std::clamp(r.number(), kWeightMin, kOne - kWeightMin);
    draws_.set_state(r.number());
    gone_.load(r);
  }

 private:
  struct Uses {
    int64_t count, since;
  };
  void learn(uint64_t key) {
    int64_t was = 0;
    if (!gone_.take(key, was)) {
      return;
    }
    const int64_t ago = std::clamp<int64_t>(clock_ - was / 2, 0, 16 * int64_t{capacity_});
    const int64_t regret = exp_minus(kDiscount / capacity_ * ago);
    const int64_t factor = exp_minus(fixed_mul(kRate, regret));
    const bool lru_erred = (was & 1) != 0;
    int64_t erred = lru_erred ? lru_weight_ : kOne - lru_weight_;
    const int64_t other = kOne - erred;
    erred = fixed_mul(erred, factor);
    erred = std::clamp(fixed_div(erred, erred + other), kWeightMin, kOne - kWeightMin);
    lru_weight_ = lru_erred ? erred : kOne - erred;
  }

  const Blocks& blocks_;
  uint32_t capacity_;
  Lists recent_;
  Heap frequent_;
  std::vector<Uses> uses_;
  Memory gone_;  // when it left, and by which expert
  Draws draws_;
  int64_t lru_weight_ = kOne / 2;
  int64_t clock_ = 0;  // accesses
};

}  // namespace

TROUPE_EVICTION_POLICY(LeCaR)
