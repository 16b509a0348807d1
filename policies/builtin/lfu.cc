// LFU: the block with the fewest uses since it came leaves, of equals the one that has had that
// count the longest. Counts are forgotten with the block. Aho, Denning, Ullman, "Principles of
// optimal page replacement", JACM 1971.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct Lfu {
  static constexpr Describe kAbout{
      .id = "lfu", .paper = "Aho, Denning, Ullman, JACM 1971", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    int64_t count, since;
  };

  Lfu(const Config& c, const Blocks&) : heap_(c.capacity), state_(c.capacity) {}
  void on_insert(const NewBlock& n, const Moment&) { state_[n.block] = {1, ++clock_}; }
  void on_hit(uint32_t b, const Moment&) { state_[b] = {state_[b].count + 1, ++clock_}; }
  void on_leaf(uint32_t b) { heap_.push(b, {state_[b].count, state_[b].since}); }
  void on_no_leaf(uint32_t b) { heap_.erase(b); }
  uint32_t victim() { return heap_.empty() ? kNone : heap_.pop(); }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return true;
  }
  void save_global(GlobalWriter& w) const { w.number(clock_); }
  void load_global(GlobalReader& r) { clock_ = r.number(); }

 private:
  Heap heap_;
  std::vector<Record> state_;
  int64_t clock_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(Lfu)
