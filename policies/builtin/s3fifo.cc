// S3-FIFO over objects: a small queue (10 %) in front of the main one (90 %), both FIFO, and a
// ghost of the keys that left small. Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need
// for cache eviction", SOSP 2023. libCacheSim later let newcomers into main while the cache fills
// and small is full (`fill_main`); the paper does not.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint8_t kSmall = 0;
constexpr uint8_t kMain = 1;
constexpr uint8_t kCountMax = 3;
constexpr uint8_t kPromoteAt = 2;

struct S3Fifo {
  static constexpr Describe kAbout{
      .id = "s3fifo", .paper = "Yang et al., SOSP 2023", .flags = TROUPE_FLAG_OBJECT_ORDER};
  static constexpr std::array kParams = {
      troupe_param_desc{"fill_main", "1: newcomers enter main while the cache fills", 0, 1, 0}};
  struct Record {
    Lists::Place place;
    uint64_t count;
  };

  S3Fifo(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        fill_main_(c.params["fill_main"] > 0),
        main_max_(c.capacity - c.capacity / 10),
        queues_(c.capacity, 2),
        ghosts_(static_cast<uint32_t>(c.capacity * 9ULL / 10)),
        planned_(c.capacity),
        count_(c.capacity, 0) {}
  void before_victim(uint64_t key) {
    if (ghosts_.take(key)) {
      planned_.push(key);
    }
  }
  void on_insert(const NewBlock& n, const Moment&) {
    count_[n.block] = 0;
    const bool known = planned_.take(n.key) || ghosts_.take(n.key) ||
                       (fill_main_ && !asked_ && queues_.size(kSmall) >= small_max());
    queues_.push_front(known ? kMain : kSmall, n.block);
  }
  void on_hit(uint32_t b, const Moment&) {
    if (count_[b] < kCountMax) {
      ++count_[b];
    }
  }
  void on_remove(uint32_t b) { queues_.drop(b); }
  uint32_t victim() {
    asked_ = true;
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
    w.number(asked_ ? 1 : 0);
  }
  void load_global(GlobalReader& r) {
    queues_.finish_load();
    r.stamps(queues_);
    r.ghosts(ghosts_);
    asked_ = r.number() != 0;
  }

 private:
  uint32_t small_max() const { return blocks_.capacity() - main_max_; }
  uint32_t from_small() {
    for (uint32_t left = queues_.size(kSmall); left > 0; --left) {
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
    for (uint64_t left = (kCountMax + 1ULL) * queues_.size(kMain); left > 0; --left) {
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
  bool fill_main_;
  uint32_t main_max_;
  Lists queues_;
  Ghosts ghosts_;
  Ghosts planned_;  // former ghosts among the blocks that wait for room
  std::vector<uint8_t> count_;
  bool asked_ = false;  // for a victim: the cache has filled
};

}  // namespace

TROUPE_EVICTION_POLICY(S3Fifo)
