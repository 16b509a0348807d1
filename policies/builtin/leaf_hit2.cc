// Two classes of leaves: those that no later request ever used leave first, oldest first, then the
// others by recency. The cut at the second use is that of 2Q (Johnson, Shasha, VLDB 1994), without
// its queues.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct LeafHit2 {
  static constexpr Describe kAbout{.id = "leaf_hit2", .paper = "after Johnson, Shasha, VLDB 1994"};
  struct Record {
    int64_t again, last;
  };

  LeafHit2(const Config& c, const Blocks&) : heap_(c.capacity), state_(c.capacity) {}
  void on_insert(const NewBlock& n, const Moment& m) {
    state_[n.block] = {0, static_cast<int64_t>(m.ordinal)};
  }
  void on_hit(uint32_t b, const Moment& m) { state_[b] = {1, static_cast<int64_t>(m.ordinal)}; }
  void on_leaf(uint32_t b) { heap_.push(b, {state_[b].again, state_[b].last}); }
  void on_no_leaf(uint32_t b) { heap_.erase(b); }
  uint32_t victim() {
    if (heap_.empty()) {
      return kNone;
    }
    score_ = heap_.top_rank().major;
    return heap_.pop();
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return true;
  }

 private:
  Heap heap_;
  std::vector<Record> state_;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(LeafHit2)
