// S3-FIFO on a prefix tree: a small queue (10 %) in front of the main one, both FIFO, and a ghost
// of the keys that left small; a block in use or with a resident child goes back to the head of its
// queue. Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP
// 2023. Changed for the tree: new blocks enter deepest first, after the victims of their request
// are taken.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint8_t kSmall = 0;
constexpr uint8_t kMain = 1;
constexpr uint8_t kCountMax = 3;
constexpr uint8_t kPromoteAt = 2;
// A search that finds nothing ends a few steps after whole rounds: where it stops decides which
// block stands at the tail next time, so these numbers are part of the definition (and of expected
// counts).
constexpr uint64_t kExtraStepsSmall = 2;
constexpr uint64_t kExtraStepsMain = 4;

struct S3FifoLeaf {
  static constexpr Describe kAbout{.id = "s3fifo_leaf", .paper = "Yang et al., SOSP 2023"};
  struct Record {
    Lists::Place place;
    uint64_t count;
  };

  S3FifoLeaf(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        main_max_(c.capacity - (c.capacity < 10 ? 1 : c.capacity / 10)),
        queues_(c.capacity, 2),
        ghosts_(static_cast<uint32_t>(c.capacity * 9ULL / 10)),
        planned_(c.capacity),
        count_(c.capacity, 0) {}
  void on_wanted(uint64_t key) {
    if (ghosts_.take(key)) {
      planned_.push(key);
    }
  }
  void on_insert(const NewBlock& n, const Moment&) {
    count_[n.block] = 0;
    const bool known = planned_.take(n.key) || ghosts_.take(n.key);
    queues_.push_front(known ? kMain : kSmall, n.block);
  }
  void on_hit(uint32_t b, const Moment&) {
    if (count_[b] < kCountMax) {
      ++count_[b];
    }
  }
  void on_remove(uint32_t b) { queues_.drop(b); }
  uint32_t victim() {
    const bool main_first = queues_.size(kMain) > main_max_ || queues_.size(kSmall) == 0;
    uint32_t b = main_first ? from_main() : from_small();
    if (b == kNone) {
      b = main_first ? from_small() : from_main();
    }
    return b;
  }
  Record save(uint32_t b) const { return {queues_.save(b), count_[b]}; }
  bool load(uint32_t b, const Record& r) {
    count_[b] = static_cast<uint8_t>(r.count & kCountMax);
    return queues_.load(b, r.place);
  }
  void save_global(GlobalWriter& w) const {
    w.stamps(queues_);
    w.ghosts(ghosts_);
  }
  void load_global(GlobalReader& r) {
    queues_.finish_load();
    r.stamps(queues_);
    r.ghosts(ghosts_);
  }

 private:
  uint32_t from_small() {
    for (uint64_t left = 2ULL * queues_.size(kSmall) + kExtraStepsSmall;
         left > 0 && queues_.size(kSmall) > 0; --left) {
      const uint32_t b = queues_.back(kSmall);
      if (count_[b] >= kPromoteAt) {
        count_[b] = 0;
        queues_.move_front(kMain, b);
      } else if (!blocks_.evictable(b)) {
        queues_.move_front(kSmall, b);
      } else {
        ghosts_.push(blocks_.key(b));
        queues_.unlink(b);
        return b;
      }
    }
    return kNone;
  }
  uint32_t from_main() {
    for (uint64_t left = (kCountMax + 1ULL) * queues_.size(kMain) + kExtraStepsMain;
         left > 0 && queues_.size(kMain) > 0; --left) {
      const uint32_t b = queues_.back(kMain);
      if (!blocks_.evictable(b)) {
        queues_.move_front(kMain, b);
      } else if (count_[b] > 0) {
        --count_[b];
        queues_.move_front(kMain, b);
      } else {
        queues_.unlink(b);
        return b;
      }
    }
    return kNone;
  }

  const Blocks& blocks_;
  uint32_t main_max_;
  Lists queues_;
  Ghosts ghosts_;
  Ghosts planned_;  // former ghosts among the blocks that wait for room
  std::vector<uint8_t> count_;
};

}  // namespace

TROUPE_EVICTION_POLICY(S3FifoLeaf)
