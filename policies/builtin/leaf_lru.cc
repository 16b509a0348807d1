// Leaf-LRU as in the radix tree of SGLang (Zheng et al., NeurIPS 2024), by blocks: of the leaves
// that nobody uses, the one whose last request lies farthest back; of equals the lower handle.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct LeafLru {
  static constexpr Describe kAbout{.id = "leaf_lru", .paper = "Zheng et al., NeurIPS 2024"};
  using Record = int64_t;  // ordinal of the last request that used the block

  LeafLru(const Config& c, const Blocks&) : heap_(c.capacity), last_(c.capacity, 0) {}
  void on_insert(const NewBlock& n, const Moment& m) { touch(n.block, m); }
  void on_hit(uint32_t b, const Moment& m) { touch(b, m); }
  void on_leaf(uint32_t b) { heap_.push(b, {last_[b], 0}); }
  void on_no_leaf(uint32_t b) { heap_.erase(b); }
  uint32_t victim() {
    if (heap_.empty()) {
      return kNone;
    }
    score_ = heap_.top_rank().major;
    return heap_.pop();
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return last_[b]; }
  bool load(uint32_t b, const Record& r) {
    last_[b] = r;
    return true;
  }

 private:
  void touch(uint32_t b, const Moment& m) { last_[b] = static_cast<int64_t>(m.ordinal); }
  Heap heap_;
  std::vector<int64_t> last_;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(LeafLru)
