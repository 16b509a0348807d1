// Leaf-LFU with dynamic ageing: a block's key is its count plus the age at its last use, where the
// age is the key of the last victim, so that old fame fades. Arlitt et al., SIGMETRICS Perf. Eval.
// Review 2000.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct LeafLfuda {
  static constexpr Describe kAbout{.id = "leaf_lfuda", .paper = "Arlitt et al., PER 2000"};
  struct Record {
    int64_t count, key, last;
  };

  LeafLfuda(const Config& c, const Blocks&) : heap_(c.capacity), state_(c.capacity) {}
  void on_insert(const NewBlock& n, const Moment& m) {
    state_[n.block] = {1, age_ + 1, static_cast<int64_t>(m.ordinal)};
  }
  void on_hit(uint32_t b, const Moment& m) {
    Record& r = state_[b];
    r = {r.count + 1, age_ + r.count + 1, static_cast<int64_t>(m.ordinal)};
  }
  void on_leaf(uint32_t b) { heap_.push(b, {state_[b].key, state_[b].last}); }
  void on_no_leaf(uint32_t b) { heap_.erase(b); }
  uint32_t victim() {
    if (heap_.empty()) {
      return kNone;
    }
    score_ = heap_.top_rank().major;
    age_ = score_ > age_ ? score_ : age_;
    return heap_.pop();
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return true;
  }
  void save_global(GlobalWriter& w) const { w.number(age_); }
  void load_global(GlobalReader& r) { age_ = r.number(); }

 private:
  Heap heap_;
  std::vector<Record> state_;
  int64_t score_ = 0;
  int64_t age_ = 0;  // key of the last victim: what a newcomer starts from
};

}  // namespace

TROUPE_EVICTION_POLICY(LeafLfuda)
