// troupe: keeps what earns most hits per block and request of stay. For every class of blocks it
// learns how long after a use the next one comes, counting those that never come back too (blocks
// that left are remembered by key), and turns that into an index: the best ratio of expected hits
// to expected time of stay, over all times at which one may give up waiting. The leaf with the
// smallest index goes; of equals the one used longest ago. Beside it runs what plain LRU would
// hold, and where the learned order falls behind by a quarter of a percent of all accesses, LRU's
// order is followed. One setting for everything; nothing is set per trace.
//
// After: Gittins, "Bandit processes and dynamic allocation indices", JRSS 1979 (the index);
// Beckmann, Chen, Cidon, "LHD", NSDI 2018 (hit density by class and age, sampled victims). Changed:
// reuse is counted beyond eviction, classes are those of sessions in a prefix tree (turn, uses,
// last distance), candidates are leaves.
#include "policies/sdk/eviction.h"
#include "policies/sdk/ghosts.h"
#include "policies/sdk/lists.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint32_t kUses = 5;
constexpr uint32_t kTurns = 5;
constexpr uint32_t kGaps = 5;
constexpr uint32_t kCoarse = kUses;
constexpr uint32_t kClasses = kUses * kTurns * kGaps;
constexpr uint32_t kAges = 64;             // exact below 8 requests, then four an octave
constexpr uint32_t kSample = 128;          // leaves looked at for one victim
constexpr uint64_t kRefresh = 128;         // requests between two computations of the index
constexpr int64_t kPriorRequests = 16;     // for so many the coarse class stands in a fine one
constexpr int64_t kMemoryRequests = 4096;  // then the counts of a class are halved
constexpr int64_t kCountMax = int64_t{1} << 32;
// One access in so many may miss what LRU would have hit.
constexpr int64_t kBehind = 400;
constexpr int64_t kCompareMax = int64_t{1} << 32;  // accesses; beyond it the past counts half
constexpr uint32_t kGhostsMax = 1 << 22;

uint32_t log2_of(uint64_t x) {
  return 63U - static_cast<uint32_t>(__builtin_clzll(x | 1));
}
uint32_t age_of(uint64_t requests) {
  if (requests < 8) {
    return static_cast<uint32_t>(requests);
  }
  const uint32_t octave = log2_of(requests);
  const auto quarter = static_cast<uint32_t>((requests >> (octave - 2)) & 3);
  return std::min(kAges - 1, 8 + (octave - 3) * 4 + quarter);
}
int64_t width_of(uint32_t age) {  // requests that an age bucket spans
  return age < 8 ? 1 : int64_t{1} << ((age - 8) / 4 + 1);
}
uint32_t step_of(uint32_t n) {  // 0, 1, 2, 3-4, 5 and more
  return n < 3 ? n : n < 5 ? 3 : 4;
}

struct Counts {
  int64_t touches = 0;
  std::array<int64_t, kAges> reused{};
  void halve_beyond(int64_t touches_max) {
    if (touches < touches_max) {
      return;
    }
    touches /= 2;
    for (int64_t& r : reused) {
      r /= 2;
    }
  }
};

// What plain LRU would hold now, by key: the standard that the learned order must not fall below.
// Blocks enter in the order of their release, deepest first, so the set is closed under parents.
class LruShadow {
 public:
  explicit LruShadow(uint32_t capacity) : map_(capacity), list_(capacity, 1), keys_(capacity) {}
  bool holds(uint64_t key) const noexcept { return map_.find(key) != kNone; }
  void use(uint64_t key) noexcept {
    uint32_t n = map_.find(key);
    if (n == kNone) {
      if (used_ < keys_.size()) {
        n = used_++;
      } else {
        n = list_.back(0);
        map_.erase(keys_[n]);
      }
      keys_[n] = key;
      map_.put(key, n);
    }
    list_.move_front(0, n);
  }

 private:
  KeyMap map_;
  Lists list_;
  std::vector<uint64_t> keys_;
  uint32_t used_ = 0;
};

struct Troupe {
  static constexpr Describe kAbout{.id = "troupe",
                                   .paper = "Gittins, JRSS 1979; Beckmann et al., NSDI 2018"};
  struct Record {
    uint64_t last;  // ordinal of the last request that used the block
    uint32_t uses;  // since it was first seen, stays among the ghosts included
    uint32_t turn;  // of the session: requests that went on from one another
    uint32_t gap;   // how far apart the last two uses were, in steps of three octaves
    uint32_t reserved;
  };

  Troupe(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        state_(c.capacity),
        place_(c.capacity, kNone),
        ghost_limit_(static_cast<uint32_t>(std::min<uint64_t>(c.capacity * 4ULL, kGhostsMax))),
        ghost_of_(ghost_limit_),
        ghosts_(ghost_limit_),
        lru_(c.capacity),
        random_(c.seed),
        fine_(kClasses),
        coarse_(kCoarse),
        index_(size_t{kClasses} * kAges, 0) {}

  void on_insert(const NewBlock& n, const Moment& m) {
    start(m);
    compare(n.key, false);
    Record& r = state_[n.block];
    r = Record{m.ordinal, 0, turn_, 0, 0};
    const uint32_t g = ghost_of_.find(n.key);
    if (g != kNone && ghosts_[g].live) {  // came back after it had left
      ghosts_[g].live = false;
      ghost_of_.erase(n.key);
      const Record old = ghosts_[g].record;
      used_again(old, m.ordinal);
      r = after_use(old, m.ordinal);
    }
    touched(r);
  }
  void on_hit(uint32_t b, const Moment& m) {
    start(m);
    compare(blocks_.key(b), true);
    Record& r = state_[b];
    turn_ = std::max(turn_, std::min(r.turn + 1, 1000U));
    used_again(r, m.ordinal);
    r = after_use(r, m.ordinal);
    touched(r);
  }
  void on_idle(uint32_t b) { lru_.use(blocks_.key(b)); }
  void on_leaf(uint32_t b) {
    if (place_[b] == kNone) {
      place_[b] = static_cast<uint32_t>(leaves_.size());
      leaves_.push_back(b);
    }
  }
  void on_no_leaf(uint32_t b) {
    const uint32_t at = place_[b];
    if (at == kNone) {
      return;
    }
    leaves_[at] = leaves_.back();
    place_[leaves_[at]] = at;
    leaves_.pop_back();
    place_[b] = kNone;
  }
  uint32_t victim() {
    if (leaves_.empty()) {
      return kNone;
    }
    const auto count = static_cast<uint32_t>(leaves_.size());
    uint32_t best = kNone;
    for (uint32_t i = 0; i < std::min(count, kSample); ++i) {
      const uint32_t b = leaves_[count <= kSample ? i : draw(count)];
      if (best == kNone || before(b, best)) {
        best = b;
      }
    }
    score_ = index_[at(state_[best], now_)];
    on_no_leaf(best);
    remember(best);
    return best;
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return r.gap < kGaps;
  }
  // What was learned of the coarse classes travels; the fine ones and the ghosts are learned anew.
  void save_global(GlobalWriter& w) const {
    w.number(static_cast<int64_t>(now_));
    w.number(static_cast<int64_t>(next_refresh_));
    w.number(static_cast<int64_t>(random_));
    w.number(static_cast<int64_t>(touches_));
    w.number(static_cast<int64_t>(requests_));
    for (const Counts& c : coarse_) {
      w.number(c.touches);
      for (const int64_t r : c.reused) {
        w.number(r);
      }
    }
  }
  void load_global(GlobalReader& r) {
    now_ = static_cast<uint64_t>(r.number());
    next_refresh_ = static_cast<uint64_t>(r.number());
    random_ = static_cast<uint64_t>(r.number());
    touches_ = static_cast<uint64_t>(clamped(r.number()));
    requests_ = static_cast<uint64_t>(clamped(r.number()));
    for (Counts& c : coarse_) {
      c.touches = clamped(r.number());
      for (int64_t& n : c.reused) {
        n = clamped(r.number());
      }
    }
    compute();
    std::vector<uint32_t> here;
    for (uint32_t b = 0; b < blocks_.capacity(); ++b) {
      if (blocks_.resident(b)) {
        here.push_back(b);
      }
    }
    std::sort(here.begin(), here.end(), [this](uint32_t a, uint32_t b) {
      if (state_[a].last != state_[b].last) {
        return state_[a].last < state_[b].last;
      }
      return blocks_.depth(a) != blocks_.depth(b) ? blocks_.depth(a) > blocks_.depth(b) : a < b;
    });
    for (const uint32_t b : here) {  // LRU is taken to hold the same; else it would owe us hits
      lru_.use(blocks_.key(b));
    }
  }

 private:
  static int64_t clamped(int64_t n) { return std::clamp<int64_t>(n, 0, kCountMax); }
  struct Ghost {
    uint64_t key = 0;
    Record record{};
    bool live = false;
  };

  static uint32_t fine_of(const Record& r) {
    return (step_of(r.uses) * kTurns + step_of(r.turn)) * kGaps + r.gap;
  }
  static size_t at(const Record& r, uint64_t now) {
    return size_t{fine_of(r)} * kAges + age_of(now - r.last);
  }
  void compare(uint64_t key, bool hit) {
    ++accesses_;
    ahead_ += (hit ? 1 : 0) - (lru_.holds(key) ? 1 : 0);
  }
  // At most one hit in kBehind accesses may be lost to LRU, from the start on; then its order is
  // followed until the loss is half of that, which takes longer each time.
  void choose_order() {
    if (follow_lru_) {
      follow_lru_ = ahead_ * 2 * kBehind < -accesses_;
    } else {
      follow_lru_ = ahead_ * kBehind < -accesses_;
    }
    if (accesses_ > kCompareMax) {
      accesses_ /= 2;
      ahead_ /= 2;
    }
  }
  bool before(uint32_t a, uint32_t b) const {
    if (follow_lru_) {
      return state_[a].last != state_[b].last ? state_[a].last < state_[b].last
                                              : blocks_.key(a) < blocks_.key(b);
    }
    const int64_t x = index_[at(state_[a], now_)];
    const int64_t y = index_[at(state_[b], now_)];
    if (x != y) {
      return x < y;
    }
    if (state_[a].last != state_[b].last) {
      return state_[a].last < state_[b].last;
    }
    return blocks_.key(a) < blocks_.key(b);
  }
  uint32_t draw(uint32_t below) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>(((random_ >> 32) * below) >> 32);
  }
  void start(const Moment& m) {
    if (m.ordinal == now_ && started_) {
      return;
    }
    started_ = true;
    now_ = m.ordinal;
    ++requests_;
    turn_ = 0;
    choose_order();
    if (now_ >= next_refresh_) {
      next_refresh_ = now_ + kRefresh;
      compute();
      forget_slowly();
    }
  }
  static Record after_use(const Record& old, uint64_t now) {
    Record r = old;
    r.uses = std::min(old.uses + 1, 1000U);
    r.gap = std::min(kGaps - 1, 1 + log2_of(now - old.last + 1) / 3);
    r.last = now;
    return r;
  }
  void touched(const Record& r) {
    ++touches_;
    ++fine_[fine_of(r)].touches;
    ++coarse_[step_of(r.uses)].touches;
  }
  void used_again(const Record& old, uint64_t now) {
    const uint32_t age = age_of(now - old.last);
    ++fine_[fine_of(old)].reused[age];
    ++coarse_[step_of(old.uses)].reused[age];
  }
  // Touches of one request come together and say one thing: weights are in requests.
  int64_t per_request() const {
    return static_cast<int64_t>(touches_ / std::max<uint64_t>(requests_, 1)) + 1;
  }
  void remember(uint32_t b) {
    if (ghost_limit_ == 0) {
      return;
    }
    Ghost& g = ghosts_[ghost_next_];
    if (g.live) {
      ghost_of_.erase(g.key);
    }
    const uint64_t key = blocks_.key(b);
    const uint32_t other = ghost_of_.find(key);
    if (other != kNone) {
      ghosts_[other].live = false;
    }
    g = Ghost{key, state_[b], true};
    ghost_of_.put(key, ghost_next_);
    ghost_next_ = (ghost_next_ + 1) % ghost_limit_;
  }
  // index[a] = max over stops t of (reused in a … t) / (time spent in a … t by those that got
  // there)
  void compute() {
    const int64_t prior = 16 * kPriorRequests * per_request();
    for (uint32_t c = 0; c < kClasses; ++c) {
      const Counts& wide = coarse_[c / (kTurns * kGaps)];
      const Counts& own = fine_[c];
      std::array<int64_t, kAges> hits{};
      std::array<int64_t, kAges> stay{};
      const int64_t base = std::max<int64_t>(wide.touches, 1);
      int64_t alive = own.touches * 16 + (wide.touches > 0 ? prior : 0);
      for (uint32_t a = 0; a < kAges; ++a) {
        hits[a] = own.reused[a] * 16 + prior * wide.reused[a] / base;
        hits[a] = std::min(hits[a], alive);
        stay[a] = (alive - hits[a] / 2) * width_of(a);
        alive -= hits[a];
      }
      for (uint32_t a = 0; a < kAges; ++a) {
        int64_t best = 0;
        int64_t sum = 0;
        int64_t time = 0;
        for (uint32_t t = a; t < kAges; ++t) {
          sum += hits[t];
          time += stay[t];
          if (hits[t] > 0 && time > 0) {
            best = std::max(best, (sum << 20) / (time / 256 + 1));
          }
        }
        index_[size_t{c} * kAges + a] = best;
      }
    }
  }
  void forget_slowly() {
    for (Counts& c : fine_) {
      c.halve_beyond(kMemoryRequests * per_request());
    }
    for (Counts& c : coarse_) {
      c.halve_beyond(kMemoryRequests * per_request());
    }
  }

  const Blocks& blocks_;
  std::vector<Record> state_;
  std::vector<uint32_t> leaves_;
  std::vector<uint32_t> place_;  // of a block in leaves_
  uint32_t ghost_limit_;
  KeyMap ghost_of_;
  std::vector<Ghost> ghosts_;  // a ring
  uint32_t ghost_next_ = 0;
  LruShadow lru_;
  uint64_t random_;
  std::vector<Counts> fine_;
  std::vector<Counts> coarse_;
  std::vector<int64_t> index_;  // [kClasses, kAges]
  uint64_t now_ = 0;
  uint64_t next_refresh_ = 0;
  uint64_t touches_ = 0;
  uint64_t requests_ = 0;
  uint32_t turn_ = 0;
  int64_t accesses_ = 0;
  int64_t ahead_ = 0;  // hits beyond those of LRU
  bool follow_lru_ = false;
  bool started_ = false;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(Troupe)
