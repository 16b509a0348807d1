// LRU-K with K = 2: the block whose second to last use lies farthest back leaves; blocks used once
// go before all others, of these the one used longest ago. O'Neil, O'Neil, Weikum, "The LRU-K page
// replacement algorithm for database disk buffering", SIGMOD 1993. Times of use are remembered for
// as many blocks that left as there are here (the paper's retained information). Changed: no
// correlated reference period, since a request uses a block once.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"
#include "policies/sdk/memory.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct LruK {
  static constexpr Describe kAbout{.id = "lruk",
                                   .paper = "O'Neil, O'Neil, Weikum, SIGMOD 1993",
                                   .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    int64_t last, before;  // before: 0 when there was but one use
  };

  LruK(const Config& c, const Blocks& blocks)
      : blocks_(blocks), heap_(c.capacity), state_(c.capacity), gone_(c.capacity) {}
  void on_insert(const NewBlock& n, const Moment&) {
    int64_t before = 0;
    gone_.take(n.key, before);
    state_[n.block] = {++clock_, before};
  }
  void on_hit(uint32_t b, const Moment&) { state_[b] = {++clock_, state_[b].last}; }
  void on_leaf(uint32_t b) { heap_.push(b, {state_[b].before, state_[b].last}); }
  void on_no_leaf(uint32_t b) { heap_.erase(b); }
  uint32_t victim() {
    if (heap_.empty()) {
      return kNone;
    }
    const uint32_t b = heap_.pop();
    gone_.put(blocks_.key(b), state_[b].last);
    return b;
  }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return true;
  }
  void save_global(GlobalWriter& w) const {
    w.number(clock_);
    gone_.save(w, 2);
  }
  void load_global(GlobalReader& r) {
    clock_ = r.number();
    gone_.load(r);
  }

 private:
  const Blocks& blocks_;
  Heap heap_;
  std::vector<Record> state_;
  Memory gone_;  // last use of blocks that left
  int64_t clock_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(LruK)
