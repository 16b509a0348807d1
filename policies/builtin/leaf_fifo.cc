// Leaf-FIFO, an option of radix-tree caches (Zheng et al., NeurIPS 2024): of the leaves that
// nobody uses, the one that was inserted by the earliest request.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct LeafFifo {
  static constexpr Describe kAbout{.id = "leaf_fifo", .paper = "Zheng et al., NeurIPS 2024"};
  using Record = int64_t;  // ordinal of the request that inserted the block

  LeafFifo(const Config& c, const Blocks&) : heap_(c.capacity), came_(c.capacity, 0) {}
  void on_insert(const NewBlock& n, const Moment& m) { note(n.block, m); }
  void on_leaf(uint32_t b) { heap_.push(b, {came_[b], 0}); }
  void on_no_leaf(uint32_t b) { heap_.erase(b); }
  uint32_t victim() {
    if (heap_.empty()) {
      return kNone;
    }
    score_ = heap_.top_rank().major;
    return heap_.pop();
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return came_[b]; }
  bool load(uint32_t b, const Record& r) {
    came_[b] = r;
    return true;
  }

 private:
  void note(uint32_t b, const Moment& m) { came_[b] = static_cast<int64_t>(m.ordinal); }
  Heap heap_;
  std::vector<int64_t> came_;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(LeafFifo)
