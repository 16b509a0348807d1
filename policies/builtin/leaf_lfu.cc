// Leaf-LFU, an option of radix-tree caches (Zheng et al., NeurIPS 2024): of the leaves that nobody
// uses, the one with the fewest requests since it came, then the one used longest ago.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct LeafLfu {
  static constexpr Describe kAbout{.id = "leaf_lfu", .paper = "Zheng et al., NeurIPS 2024"};
  struct Record {
    int64_t count, last;
  };

  LeafLfu(const Config& c, const Blocks&) : heap_(c.capacity), state_(c.capacity) {}
  void on_insert(const NewBlock& n, const Moment& m) {
    state_[n.block] = {1, static_cast<int64_t>(m.ordinal)};
  }
  void on_hit(uint32_t b, const Moment& m) {
    state_[b] = {state_[b].count + 1, static_cast<int64_t>(m.ordinal)};
  }
  void on_leaf(uint32_t b) { heap_.push(b, {state_[b].count, state_[b].last}); }
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

TROUPE_EVICTION_POLICY(LeafLfu)
