// W-TinyLFU: a small LRU window (1 %) before a segmented LRU (20 % probation, 80 % protected); what
// leaves the window enters only if a sketch has seen it more often than the main part's victim.
// Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy", ACM TOS 2017.
// The sketch: four rows of counters with conservative update, halved every 32 × capacity samples.
// Samples are arrivals, hits in the main part and departures from the window, as libCacheSim counts
// them; the paper counts every access.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <algorithm>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint8_t kWindow = 0;
constexpr uint8_t kProbation = 1;
constexpr uint8_t kProtected = 2;
constexpr uint32_t kRows = 4;
constexpr uint8_t kCounterMax = 255;
constexpr uint64_t kSamplesPerBlock = 32;

class Sketch {
 public:
  explicit Sketch(uint32_t capacity) {
    uint64_t width = 64;
    while (width < 4ULL * capacity) {
      width *= 2;
    }
    mask_ = width - 1;
    counters_.assign(width * kRows, 0);
    limit_ = kSamplesPerBlock * std::max(capacity, 16U);
  }
  uint8_t count(uint64_t key) const {
    uint8_t least = kCounterMax;
    for (uint32_t row = 0; row < kRows; ++row) {
      least = std::min(least, counters_[place(key, row)]);
    }
    return least;
  }
  void add(uint64_t key) {
    const uint8_t least = count(key);
    if (least < kCounterMax) {
      for (uint32_t row = 0; row < kRows; ++row) {
        uint8_t& c = counters_[place(key, row)];
        c = std::max<uint8_t>(c, static_cast<uint8_t>(least + 1));
      }
    }
    if (++samples_ >= limit_) {
      samples_ /= 2;
      for (uint8_t& c : counters_) {
        c = static_cast<uint8_t>(c / 2);
      }
    }
  }

 private:
  uint64_t place(uint64_t key, uint32_t row) const {
    return row * (mask_ + 1) + (KeyMap::mix(key + 0x9E3779B97F4A7C15ULL * (row + 1)) & mask_);
  }
  uint64_t mask_;
  uint64_t limit_;
  uint64_t samples_ = 0;
  std::vector<uint8_t> counters_;
};

struct WTinyLfu {
  static constexpr Describe kAbout{.id = "wtinylfu",
                                   .paper = "Einziger, Friedman, Manes, TOS 2017",
                                   .flags = TROUPE_FLAG_OBJECT_ORDER};
  using Record = Lists::Place;

  WTinyLfu(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        main_max_(c.capacity - std::max(1U, c.capacity / 100)),
        protected_max_(static_cast<uint32_t>(main_max_ * 4ULL / 5)),
        lists_(c.capacity, 3),
        sketch_(c.capacity) {}

  void on_insert(const NewBlock& n, const Moment&) {
    sketch_.add(n.key);
    lists_.push_front(kWindow, n.block);
  }
  void on_hit(uint32_t b, const Moment&) {
    const uint8_t list = lists_.list_of(b);
    if (list == kWindow) {
      lists_.move_front(kWindow, b);
      return;
    }
    sketch_.add(blocks_.key(b));
    lists_.move_front(kProtected, b);
    while (lists_.size(kProtected) > protected_max_) {
      lists_.move_front(kProbation, lists_.back(kProtected));
    }
  }
  void on_remove(uint32_t b) { lists_.drop(b); }
  uint32_t victim() {
    uint32_t newcomer = tail(kWindow);
    while (newcomer != kNone && main_size() < main_max_) {  // the main part fills up first
      sketch_.add(blocks_.key(newcomer));
      enter_main(newcomer);
      newcomer = tail(kWindow);
    }
    uint32_t old = tail(kProbation);
    if (old == kNone) {
      old = tail(kProtected);
    }
    uint32_t out = old;
    if (newcomer != kNone) {
      const uint64_t key = blocks_.key(newcomer);
      if (old != kNone && sketch_.count(key) > sketch_.count(blocks_.key(old))) {
        lists_.unlink(old);
        enter_main(newcomer);
        sketch_.add(key);
        return old;
      }
      sketch_.add(key);
      out = newcomer;
    }
    if (out != kNone) {
      lists_.unlink(out);
    }
    return out;
  }
  Record save(uint32_t b) const { return lists_.save(b); }
  bool load(uint32_t b, const Record& r) { return lists_.load(b, r); }
  // The sketch is larger than the global record: it starts anew, as after its own halving.
  void save_global(GlobalWriter& w) const { w.stamps(lists_); }
  void load_global(GlobalReader& r) {
    lists_.finish_load();
    r.stamps(lists_);
  }

 private:
  uint32_t main_size() const { return lists_.size(kProbation) + lists_.size(kProtected); }
  void enter_main(uint32_t b) {
    const bool probation_full = lists_.size(kProbation) >= main_max_ - protected_max_;
    const bool to_protected = probation_full && lists_.size(kProtected) < protected_max_;
    lists_.move_front(to_protected ? kProtected : kProbation, b);
  }
  uint32_t tail(uint8_t list) const {
    uint32_t b = lists_.back(list);
    while (b != kNone && !blocks_.evictable(b)) {
      b = lists_.toward_front(b);
    }
    return b;
  }
  const Blocks& blocks_;
  uint32_t main_max_;
  uint32_t protected_max_;
  Lists lists_;
  Sketch sketch_;
};

}  // namespace

TROUPE_EVICTION_POLICY(WTinyLfu)
