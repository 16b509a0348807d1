// Cacheus: a scan-resistant LRU and a churn-resistant LFU as experts with learned weights and a
// learned learning rate. Rodriguez, Yusuf, Lyons, Paz, Rangaswami, Liu, Zhao, Narasimhan, "Learning
// cache replacement with CACHEUS", FAST 2021.
//   SR-LRU: newcomers in SR, reused blocks in R; victims come from SR; ghosts of SR (H) and
//   demotions from R move the border. CR-LFU: fewest uses first, of equals the newest; counts
//   survive in H.
// Changed: weights are fixed point; nothing leaves before the cache is full, so SR fills it first.
#include "policies/sdk/eviction.h"
#include "policies/sdk/fixed.h"
#include "policies/sdk/heap.h"
#include "policies/sdk/lists.h"
#include "policies/sdk/memory.h"

#include <algorithm>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint8_t kNew = 0;     // the paper's SR
constexpr uint8_t kReused = 1;  // R
constexpr int64_t kRateMin = kOne / 1000;
constexpr int64_t kWeightMin = kOne / 1000000;
constexpr int64_t kPatience = 10;  // intervals without a better hit rate

struct Cacheus {
  static constexpr Describe kAbout{
      .id = "cacheus", .paper = "Rodriguez et al., FAST 2021", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    Lists::Place place;
    int64_t count, since;
    uint64_t marks;
  };

  Cacheus(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        capacity_(c.capacity),
        new_share_(std::max(1U, c.capacity / 2)),
        lists_(c.capacity, 2),
        frequent_(c.capacity),
        state_(c.capacity),
        history_(c.capacity),
        lru_gone_(c.capacity / 2),
        lfu_gone_(c.capacity / 2),
        known_(c.capacity),
        draws_(c.seed) {
    rate_ = draw_rate();
  }

  void before_victim(uint64_t key) { learn(key); }
  void on_wanted(uint64_t key) {
    int64_t packed = 0;
    if (history_.take(key, packed)) {
      known_.put(key, packed);
    }
  }
  void on_insert(const NewBlock& n, const Moment&) {
    learn(n.key);
    tick();
    int64_t packed = 0;
    const bool known = known_.take(n.key, packed) || history_.take(n.key, packed);
    State& s = state_[n.block];
    s = State{known ? packed / 2 + 1 : 1, ++clock_, known ? uint8_t{0} : kFresh};
    if (!known) {
      lists_.push_front(kNew, n.block);
      return;
    }
    if ((packed & 1) != 0) {  // it left as a newcomer: SR was too small
      const int64_t ratio = demoted_ / std::max<int64_t>(fresh_gone_, 1);
      const auto step = static_cast<uint32_t>(std::clamp<int64_t>(ratio, 1, capacity_));
      new_share_ = std::min(std::max(1U, capacity_ - 1), new_share_ + step);
      fresh_gone_ -= fresh_gone_ > 0 ? 1 : 0;
    }
    enter_reused(n.block);
  }
  void on_hit(uint32_t b, const Moment&) {
    tick();
    ++hits_;
    State& s = state_[b];
    s.count += 1;
    s.since = ++clock_;
    if (lists_.list_of(b) == kReused) {
      lists_.move_front(kReused, b);
      return;
    }
    if (s.marks == kDemoted) {  // R let it go too early
      const int64_t ratio = fresh_gone_ / std::max<int64_t>(demoted_, 1);
      const auto step = static_cast<uint32_t>(std::clamp<int64_t>(ratio, 1, capacity_));
      new_share_ = new_share_ > step ? new_share_ - step : 1;
      demoted_ -= demoted_ > 0 ? 1 : 0;
    }
    s.marks = 0;
    lists_.unlink(b);
    enter_reused(b);
  }
  void on_leaf(uint32_t b) { frequent_.push(b, {state_[b].count, -state_[b].since}); }
  void on_no_leaf(uint32_t b) { frequent_.erase(b); }
  void on_remove(uint32_t b) { lists_.drop(b); }
  uint32_t victim() {
    if (frequent_.empty()) {
      return kNone;
    }
    const uint32_t by_lfu = frequent_.top();
    uint32_t by_lru = oldest(kNew);
    by_lru = by_lru != kNone ? by_lru : oldest(kReused);
    by_lru = by_lru != kNone ? by_lru : by_lfu;
    constexpr uint32_t kSteps = 1U << 30;
    const bool lru = static_cast<int64_t>(draws_.below(kSteps)) * 4 < lru_weight_;
    const uint32_t b = lru ? by_lru : by_lfu;
    if (by_lru != by_lfu) {
      (lru ? lru_gone_ : lfu_gone_).push(blocks_.key(b));
    }
    const State& s = state_[b];
    fresh_gone_ += s.marks == kFresh ? 1 : 0;
    demoted_ -= s.marks == kDemoted && demoted_ > 0 ? 1 : 0;
    history_.put(blocks_.key(b), s.count * 2 + (s.marks == kFresh ? 1 : 0));
    frequent_.erase(b);
    lists_.unlink(b);
    return b;
  }
  Record save(uint32_t b) const {
    return {lists_.save(b), state_[b].count, state_[b].since, state_[b].marks};
  }
  bool load(uint32_t b, const Record& r) {
    state_[b] = State{r.count, r.since, static_cast<uint8_t>(r.marks)};
    return r.marks <= kDemoted && lists_.load(b, r.place);
  }
  void save_global(GlobalWriter& w) const {
    w.stamps(lists_);
    for (const int64_t v :
         {clock_, lru_weight_, rate_, rate_before_, hit_rate_before_, hits_, accesses_, unlearned_,
          demoted_, fresh_gone_, draws_.state(), static_cast<int64_t>(new_share_)}) {
      w.number(v);
    }
    history_.save(w, 4);
    w.ghosts(lru_gone_, 6);
    w.ghosts(lfu_gone_, 6);
  }
  void load_global(GlobalReader& r) {
    lists_.finish_load();
    r.stamps(lists_);
    clock_ = r.number();
    lru_weight_ = std::clamp(r.number(), kWeightMin, kOne - kWeightMin);
    rate_ = std::clamp(r.number(), kRateMin, kOne);
    rate_before_ = std::clamp(r.number(), int64_t{0}, kOne);
    hit_rate_before_ = std::clamp(r.number(), int64_t{0}, kOne);
    hits_ = std::clamp<int64_t>(r.number(), 0, capacity_);
    accesses_ = std::clamp<int64_t>(r.number(), 0, capacity_);
    unlearned_ = std::clamp<int64_t>(r.number(), 0, kPatience);
    demoted_ = std::clamp<int64_t>(r.number(), 0, capacity_);
    fresh_gone_ = std::clamp<int64_t>(r.number(), 0, INT64_MAX);
    draws_.set_state(r.number());
    new_share_ = static_cast<uint32_t>(std::clamp<int64_t>(r.number(), 1, capacity_));
    history_.load(r);
    r.ghosts(lru_gone_);
    r.ghosts(lfu_gone_);
  }

 private:
  static constexpr uint8_t kFresh = 1;
  static constexpr uint8_t kDemoted = 2;
  struct State {
    int64_t count = 0, since = 0;
    uint8_t marks = 0;
  };
  void enter_reused(uint32_t b) {
    const uint32_t limit = capacity_ > new_share_ ? capacity_ - new_share_ : 0;
    while (lists_.size(kReused) > 0 && lists_.size(kReused) >= limit) {
      const uint32_t old = lists_.back(kReused);
      lists_.move_front(kNew, old);
      demoted_ += state_[old].marks == kDemoted ? 0 : 1;
      state_[old].marks = kDemoted;
    }
    lists_.push_front(kReused, b);
  }
  uint32_t oldest(uint8_t list) const {
    uint32_t b = lists_.back(list);
    while (b != kNone && !blocks_.evictable(b)) {
      b = lists_.toward_front(b);
    }
    return b;
  }
  void learn(uint64_t key) {
    const bool lru_erred = lru_gone_.take(key);
    if (!lru_erred && !lfu_gone_.take(key)) {
      return;
    }
    int64_t erred = lru_erred ? lru_weight_ : kOne - lru_weight_;
    const int64_t other = kOne - erred;
    erred = fixed_mul(erred, exp_minus(rate_));
    erred = std::clamp(fixed_div(erred, erred + other), kWeightMin, kOne - kWeightMin);
    lru_weight_ = lru_erred ? erred : kOne - erred;
  }
  int64_t draw_rate() { return kRateMin + kOne / 1000 * draws_.below(1000); }
  // Once every N accesses: the rate moves on in the direction that helped.
  void tick() {
    if (++accesses_ < capacity_) {
      return;
    }
    const int64_t hit_rate = fixed_div(hits_, accesses_);
    const int64_t gained = hit_rate - hit_rate_before_;
    const int64_t moved = rate_ - rate_before_;
    rate_before_ = rate_;
    hit_rate_before_ = hit_rate;
    accesses_ = 0;
    hits_ = 0;
    if (moved != 0) {
      const int64_t step = fixed_mul(rate_, moved < 0 ? -moved : moved);
      const bool helped = (gained > 0) == (moved > 0) && gained != 0;
      rate_ = std::clamp(rate_ + (helped ? step : -step), kRateMin, kOne);
      unlearned_ = 0;
    } else if (hit_rate == 0 || gained <= 0) {
      if (++unlearned_ >= kPatience) {
        unlearned_ = 0;
        rate_ = draw_rate();
      }
    }
  }

  const Blocks& blocks_;
  uint32_t capacity_;
  uint32_t new_share_;
  Lists lists_;
  Heap frequent_;
  std::vector<State> state_;
  Memory history_;  // H: count, and whether it left as a newcomer
  Ghosts lru_gone_;
  Ghosts lfu_gone_;
  Memory known_;  // of H, among the blocks that wait for room
  Draws draws_;
  int64_t lru_weight_ = kOne / 2;
  int64_t rate_ = 0, rate_before_ = 0, hit_rate_before_ = 0;
  int64_t hits_ = 0, accesses_ = 0, unlearned_ = 0;
  int64_t demoted_ = 0;     // blocks in SR that came from R
  int64_t fresh_gone_ = 0;  // newcomers in H
  int64_t clock_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(Cacheus)
