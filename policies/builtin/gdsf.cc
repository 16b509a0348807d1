// GreedyDual-Size-Frequency over objects: key = age + count x cost / size, the age being the key of
// the last victim. Cherkasova, "Improving WWW proxies performance with greedy-dual-size-frequency
// caching policy", HPL-98-69R1, 1998. Blocks have one size and, here, one cost, so the key is age +
// count.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct Gdsf {
  static constexpr Describe kAbout{
      .id = "gdsf", .paper = "Cherkasova, HPL-98-69R1", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    int64_t count, key, last;
  };

  Gdsf(const Config& c, const Blocks&) : heap_(c.capacity), state_(c.capacity) {}
  void on_insert(const NewBlock& n, const Moment&) { state_[n.block] = {1, age_ + 1, ++clock_}; }
  void on_hit(uint32_t b, const Moment&) {
    Record& r = state_[b];
    r = {r.count + 1, age_ + r.count + 1, ++clock_};
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
  void save_global(GlobalWriter& w) const {
    w.number(age_);
    w.number(clock_);
  }
  void load_global(GlobalReader& r) {
    age_ = r.number();
    clock_ = r.number();
  }

 private:
  Heap heap_;
  std::vector<Record> state_;
  int64_t age_ = 0;
  int64_t clock_ = 0;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(Gdsf)
