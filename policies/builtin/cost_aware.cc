// Cost-aware: a block is worth the time to compute it again, times the chance that it is used
// again, by byte; what is worth least goes, and worth ages as in GreedyDual. Cao, Irani,
// "Cost-aware WWW proxy caching algorithms", USITS 1997; the chance by number of uses as learned
// here. The cost is the host's where it gives one, else tokens × (64 + depth), since deep tokens
// attend to more of them. Blocks of one tier have one size.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint32_t kUses = 8;
constexpr int64_t kCountMax = 1 << 16;  // then counts are halved
constexpr int64_t kPoint = 1024;
constexpr int64_t kCostMax = int64_t{1} << 40;

struct CostAware {
  static constexpr Describe kAbout{.id = "cost_aware", .paper = "Cao, Irani, USITS 1997"};
  struct Record {
    int64_t cost, worth, last, uses;
  };

  CostAware(const Config& c, const Blocks&) : leaves_(c.capacity), state_(c.capacity) {}

  void on_insert(const NewBlock& n, const Moment& m) {
    const uint64_t own = std::max<uint64_t>(n.tokens, 1) * (64 + uint64_t{n.depth});
    const auto cost =
        static_cast<int64_t>(std::min<uint64_t>(n.cost != 0 ? n.cost : own, kCostMax));
    state_[n.block] = {cost, 0, static_cast<int64_t>(m.ordinal), 0};
    value(state_[n.block]);
  }
  void on_hit(uint32_t b, const Moment& m) {
    Record& r = state_[b];
    count(classes_[static_cast<size_t>(r.uses)].reused, r);
    r.uses = std::min<int64_t>(r.uses + 1, kUses - 1);
    r.last = static_cast<int64_t>(m.ordinal);
    value(r);
  }
  void on_leaf(uint32_t b) { leaves_.push(b, {state_[b].worth, state_[b].last}); }
  void on_no_leaf(uint32_t b) { leaves_.erase(b); }
  uint32_t victim() {
    if (leaves_.empty()) {
      return kNone;
    }
    score_ = leaves_.top_rank().major;
    age_ = std::max(age_, score_);
    const uint32_t b = leaves_.pop();
    count(classes_[static_cast<size_t>(state_[b].uses)].gone, state_[b]);
    return b;
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return r.uses >= 0 && r.uses < int64_t{kUses} && r.cost >= 0 && r.cost <= kCostMax;
  }
  void save_global(GlobalWriter& w) const {
    w.number(age_);
    for (const Class& c : classes_) {
      w.number(c.reused);
      w.number(c.gone);
    }
  }
  void load_global(GlobalReader& r) {
    age_ = std::clamp<int64_t>(r.number(), 0, int64_t{1} << 60);
    for (Class& c : classes_) {
      c.reused = std::clamp<int64_t>(r.number(), 1, kCountMax);
      c.gone = std::clamp<int64_t>(r.number(), 1, kCountMax);
    }
  }

 private:
  struct Class {
    int64_t reused = 1, gone = 1;
  };
  void count(int64_t& what, const Record& r) {
    if (++what >= kCountMax) {
      Class& c = classes_[static_cast<size_t>(r.uses)];
      c.reused = c.reused / 2 + 1;
      c.gone = c.gone / 2 + 1;
    }
  }
  void value(Record& r) const {
    const Class& c = classes_[static_cast<size_t>(r.uses)];
    r.worth = age_ + r.cost * (kPoint * c.reused / (c.reused + c.gone)) / kPoint;
  }

  Heap leaves_;
  std::vector<Record> state_;
  std::array<Class, kUses> classes_{};
  int64_t age_ = 0;  // worth of the last victim: what a newcomer starts from
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(CostAware)
