// LRU over the nodes of a radix tree, as SGLang evicts (Zheng et al., NeurIPS 2024). A node is a
// run of blocks that came together; a match that ends inside a node splits it, and both halves
// count as used now. The leaf node used longest ago leaves as a whole, so more may be freed than
// was asked for.
//   node_[b] = the deepest block of b's node, which names the node; used_ counts at that block.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct SglangLru {
  static constexpr Describe kAbout{.id = "sglang_lru",
                                   .paper = "Zheng et al., NeurIPS 2024",
                                   .flags = TROUPE_FLAG_MAY_OVER_EVICT};
  struct Record {
    int64_t used;
    uint64_t node;
  };

  SglangLru(const Config& c, const Blocks& blocks)
      : blocks_(blocks), heap_(c.capacity), used_(c.capacity, 0), node_(c.capacity, kNone) {}

  void on_insert(const NewBlock& n, const Moment& m) {  // deepest first
    settle();
    const bool joins = below_ != kNone && below_parent_ == n.block && below_ordinal_ == m.ordinal;
    node_[n.block] = joins ? node_[below_] : n.block;
    used_[node_[n.block]] = moment(m) + 1;  // after the match of the same request
    below_ = n.block;
    below_parent_ = n.parent;
    below_ordinal_ = m.ordinal;
  }
  void on_hit(uint32_t b, const Moment& m) {
    settle();
    if (m.ordinal != matched_ordinal_) {  // the deepest block of this match
      matched_ordinal_ = m.ordinal;
      split_below(b, moment(m));
    }
    used_[node_[b]] = moment(m);
  }
  void on_leaf(uint32_t b) { heap_.push(b, {used_[node_[b]], 0}); }
  void on_no_leaf(uint32_t b) { heap_.erase(b); }
  void on_remove(uint32_t b) {
    settle();
    if (node_[b] == b) {
      rename(blocks_.parent(b), b);
    }
  }
  uint32_t victim() {
    if (rest_ == kNone || !blocks_.evictable(rest_)) {
      settle();
      if (heap_.empty()) {
        return kNone;
      }
      rest_ = heap_.top();
      run_ = node_[rest_];
      score_ = used_[run_];
    }
    const uint32_t b = rest_;
    heap_.erase(b);
    const uint32_t parent = blocks_.parent(b);
    rest_ = parent != kNone && node_[parent] == run_ ? parent : kNone;
    return b;
  }
  bool mid_run() const { return rest_ != kNone; }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return {used_[node_[b]], node_[b]}; }
  bool load(uint32_t b, const Record& r) {
    if (r.node >= blocks_.capacity()) {
      return false;
    }
    node_[b] = static_cast<uint32_t>(r.node);
    used_[node_[b]] = r.used;
    return true;
  }

 private:
  static int64_t moment(const Moment& m) { return 2 * static_cast<int64_t>(m.ordinal); }
  // The upper part of a node gets a name of its own; the lower keeps the old one, and its time is
  // now.
  void split_below(uint32_t b, int64_t now) {
    const uint32_t lower = node_[b];
    if (lower == b) {
      return;
    }
    used_[lower] = now;
    if (heap_.holds(lower)) {
      heap_.push(lower, {now, 0});
    }
    rename(b, lower);
  }
  // Blocks from b up that belong to node `from` become the node named b.
  void rename(uint32_t b, uint32_t from) {
    const uint32_t name = b;
    for (; b != kNone && node_[b] == from; b = blocks_.parent(b)) {
      node_[b] = name;
    }
    if (name != kNone) {
      used_[name] = used_[from];
    }
  }
  // An answer that had no room for a whole node leaves a stump, whose name may be given to a new
  // block.
  void settle() {
    if (rest_ != kNone) {
      rename(rest_, run_);
      rest_ = kNone;
    }
  }

  const Blocks& blocks_;
  Heap heap_;
  std::vector<int64_t> used_;
  std::vector<uint32_t> node_;
  uint32_t below_ = kNone;
  uint32_t below_parent_ = kNone;
  uint64_t below_ordinal_ = 0;
  uint64_t matched_ordinal_ = ~uint64_t{0};
  uint32_t rest_ = kNone;  // of the node that is being named
  uint32_t run_ = kNone;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(SglangLru)
