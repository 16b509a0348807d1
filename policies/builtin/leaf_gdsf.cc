// GreedyDual-Size-Frequency on the leaves (Cherkasova, HP Labs 1998): key = age + count x cost,
// where the cost of a block grows with its depth, since deep tokens attend to more of them: 64 +
// depth.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct LeafGdsf {
  static constexpr Describe kAbout{.id = "leaf_gdsf", .paper = "Cherkasova, HPL-98-69R1"};
  struct Record {
    int64_t count, key, last;
  };

  LeafGdsf(const Config& c, const Blocks& blocks)
      : blocks_(blocks), heap_(c.capacity), state_(c.capacity) {}
  void on_insert(const NewBlock& n, const Moment& m) {
    state_[n.block] = {1, age_ + 64 + n.depth, static_cast<int64_t>(m.ordinal)};
  }
  void on_hit(uint32_t b, const Moment& m) {
    Record& r = state_[b];
    const int64_t cost = 64 + static_cast<int64_t>(blocks_.depth(b));
    r = {r.count + 1, age_ + (r.count + 1) * cost, static_cast<int64_t>(m.ordinal)};
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
  const Blocks& blocks_;
  Heap heap_;
  std::vector<Record> state_;
  int64_t score_ = 0;
  int64_t age_ = 0;  // key of the last victim: what a newcomer starts from
};

}  // namespace

TROUPE_EVICTION_POLICY(LeafGdsf)
