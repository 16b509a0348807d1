// LHD: the block with the lowest hit density leaves, the chance of a hit at its age divided by the
// time that it is expected to stay; of 32 drawn blocks and the last 8 that came in with a low one.
// Beckmann, Chen, Cidon, "LHD: improving cache hit rate by maximizing hit density", NSDI 2018.
// Classes by the sum of the last two ages at a hit; a few blocks are kept as explorers. Changed:
// numbers are fixed point; what was learned of ages is relearned after a swap, since it is larger
// than the global record; `interval` may be shorter than the paper's 2^20 accesses.
#include "policies/sdk/eviction.h"
#include "policies/sdk/fixed.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint32_t kAges = 20000;  // coarse ones
constexpr uint32_t kClasses = 16;
constexpr uint32_t kSample = 32;
constexpr uint32_t kSampleEarly = 8;
constexpr uint32_t kRecent = 8;
constexpr uint32_t kEarlyRounds = 50;
constexpr uint32_t kExploreOneIn = 32;
constexpr uint32_t kUnit = 256;       // one event; counts decay by a tenth each round
constexpr int64_t kTie = 1LL << 40;   // explorers stand above all others
constexpr int64_t kPointBits = 20;    // of densities
constexpr uint32_t kTolerance = 200;  // the paper's error tolerance of 0.01, times 20,000 ages

struct Lhd {
  static constexpr Describe kAbout{
      .id = "lhd", .paper = "Beckmann, Chen, Cidon, NSDI 2018", .flags = TROUPE_FLAG_OBJECT_ORDER};
  static constexpr std::array kParams = {troupe_param_desc{
      "interval", "accesses between two computations of the densities", 256, 1 << 30, 16384}};
  struct Record {
    uint64_t at;  // access number of the last use
    uint32_t age, age_before;
    uint32_t explorer, reserved;
  };

  Lhd(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        interval_(static_cast<uint64_t>(c.params["interval"])),
        state_(c.capacity),
        place_(c.capacity, kNone),
        hits_(size_t{kClasses} * kAges, 0),
        gone_(size_t{kClasses} * kAges, 0),
        density_(size_t{kClasses} * kAges),
        draws_(c.seed),
        explorers_left_(c.capacity / 100) {
    for (uint32_t k = 0; k < kClasses; ++k) {  // near GreedyDual before anything is known
      for (uint32_t a = 0; a < kAges; ++a) {
        density_[size_t{k} * kAges + a] = ((int64_t{kClasses} + k + 1) << kPointBits) / (a + 1);
      }
    }
    recent_.fill(kNone);
  }

  void on_insert(const NewBlock& n, const Moment&) {
    Record& r = state_[n.block];
    r = Record{now_, 0, kAges, 0, 0};
    const bool explored = explore(r);
    if (!explored && rank(r) < victim_density_) {
      recent_[recent_next_++ % kRecent] = n.block;
    }
    tick();
  }
  void on_hit(uint32_t b, const Moment&) {
    Record& r = state_[b];
    const uint32_t age = age_of(r);
    hits_[size_t{class_of(r)} * kAges + age] += kUnit;
    explorers_left_ += r.explorer;
    r = Record{now_, age, r.age, 0, 0};
    explore(r);
    tick();
  }
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
  void on_remove(uint32_t b) { explorers_left_ += state_[b].explorer; }
  uint32_t victim() {
    if (leaves_.empty()) {
      return kNone;
    }
    const uint32_t sample = rounds_ > kEarlyRounds ? kSample : kSampleEarly;
    uint32_t best = kNone;
    int64_t least = 0;
    const auto consider = [&](uint32_t b) {
      const int64_t r = rank(state_[b]);
      if (best == kNone || r < least) {
        best = b;
        least = r;
      }
    };
    for (uint32_t i = 0; i < sample; ++i) {
      consider(leaves_[draws_.below(static_cast<uint32_t>(leaves_.size()))]);
    }
    for (const uint32_t b : recent_) {
      if (b != kNone && blocks_.evictable(b)) {
        consider(b);
      }
    }
    victim_density_ = (victim_density_ * 9 + least) / 10;
    score_ = least;
    const Record& r = state_[best];
    gone_[size_t{class_of(r)} * kAges + age_of(r)] += kUnit;
    explorers_left_ += r.explorer;
    on_no_leaf(best);
    std::replace(recent_.begin(), recent_.end(), best, kNone);
    return best;
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return r.age <= kAges && r.age_before <= kAges && r.explorer <= 1;
  }
  void save_global(GlobalWriter& w) const {
    w.number(static_cast<int64_t>(now_));
    w.number(draws_.state());
    w.number(shift_);
  }
  void load_global(GlobalReader& r) {
    now_ = static_cast<uint64_t>(r.number());
    draws_.set_state(r.number());
    shift_ = std::clamp<int64_t>(r.number(), 0, 40);
  }

 private:
  uint32_t age_of(const Record& r) const {
    return static_cast<uint32_t>(std::min<uint64_t>((now_ - r.at) >> shift_, kAges - 1));
  }
  static uint32_t class_of(const Record& r) {
    uint64_t age = uint64_t{r.age} + r.age_before;
    if (age == 0) {
      return kClasses - 1;
    }
    uint32_t log = 0;
    while (age < kAges && log < kClasses - 1) {
      age *= 2;
      ++log;
    }
    return log;
  }
  int64_t rank(const Record& r) const {
    const uint32_t age = age_of(r);
    if (age == kAges - 1) {
      return -kTie;
    }
    return density_[size_t{class_of(r)} * kAges + age] +
           (r.explorer != 0 ? int64_t{1} << kPointBits : 0);
  }
  bool explore(Record& r) {
    const bool drawn = draws_.below(kExploreOneIn) == 0;
    if (drawn && explorers_left_ > 0 && rounds_ < kEarlyRounds) {
      r.explorer = 1;
      --explorers_left_;
    }
    return drawn;
  }
  void tick() {
    ++now_;
    if (++since_ < interval_) {
      return;
    }
    since_ = 0;
    for (size_t i = 0; i < hits_.size(); ++i) {
      hits_[i] -= hits_[i] / 10;
      gone_[i] -= gone_[i] / 10;
    }
    if (rounds_ == 5 || rounds_ == 25) {
      fit_ages();
    }
    compute();
    ++rounds_;
  }
  // Coarse ages such that about kTolerance of them span a turnover of the cache.
  void fit_ages() {
    int64_t shift = 1;
    while ((uint64_t{1} << shift) * kTolerance < blocks_.resident_count()) {
      ++shift;
    }
    if (shift == shift_) {
      return;
    }
    shift_ = shift;  // old counts speak of other ages
    std::fill(hits_.begin(), hits_.end(), 0U);
    std::fill(gone_.begin(), gone_.end(), 0U);
  }
  void compute() {
    for (uint32_t k = 0; k < kClasses; ++k) {
      const size_t first = size_t{k} * kAges;
      int64_t hits = hits_[first + kAges - 1];
      int64_t events = hits + gone_[first + kAges - 1];
      int64_t lifetime = events;
      for (uint32_t a = kAges - 1; a > 0; --a) {
        const size_t i = first + a - 1;
        hits += hits_[i];
        events += int64_t{hits_[i]} + gone_[i];
        lifetime += events;
        density_[i] =
            lifetime > 0
                ? static_cast<int64_t>((static_cast<__int128>(hits) << kPointBits) / lifetime)
                : 0;
      }
    }
  }

  const Blocks& blocks_;
  uint64_t interval_;
  std::vector<Record> state_;
  std::vector<uint32_t> leaves_;
  std::vector<uint32_t> place_;
  std::vector<uint32_t> hits_;    // [kClasses, kAges], in 1 / kUnit
  std::vector<uint32_t> gone_;    // the same of victims
  std::vector<int64_t> density_;  // the same, in 2^-kPointBits
  Draws draws_;
  int64_t explorers_left_;
  std::array<uint32_t, kRecent> recent_{};
  uint32_t recent_next_ = 0;
  int64_t victim_density_ = 0;
  int64_t score_ = 0;
  uint64_t now_ = 0;    // accesses
  uint64_t since_ = 0;  // accesses since the last computation
  uint32_t rounds_ = 0;
  int64_t shift_ = 10;  // accesses in a coarse age, log2
};

}  // namespace

TROUPE_EVICTION_POLICY(Lhd)
