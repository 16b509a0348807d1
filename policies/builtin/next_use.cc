// Workload-aware: for each class of blocks the time to the next use is taken to be exponential,
// with a share that never comes back; the block least likely to be used again within the time that
// a block stays goes first, of equals the deepest. Wang et al., "KVCache cache in the wild:
// characterizing and optimizing KVCache cache at a large cloud provider", USENIX ATC 2025. Classes
// there are request type by turn; here turn by number of uses. Time is counted in requests. Within
// a class the chance falls with age, so one candidate a class is enough: O(classes + log n).
#include "policies/sdk/eviction.h"
#include "policies/sdk/fixed.h"
#include "policies/sdk/heap.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint32_t kTurns = 4;
constexpr uint32_t kUses = 4;
constexpr uint32_t kClasses = kTurns * kUses;
constexpr int64_t kCountMax = 1 << 16;  // then counts are halved

struct NextUse {
  static constexpr Describe kAbout{.id = "next_use", .paper = "Wang et al., USENIX ATC 2025"};
  struct Record {
    int64_t last;  // request ordinal
    uint32_t uses, turn;
  };

  NextUse(const Config& c, const Blocks& blocks) : blocks_(blocks), state_(c.capacity) {
    for (uint32_t k = 0; k < kClasses; ++k) {
      leaves_.emplace_back(c.capacity);
    }
  }

  void on_insert(const NewBlock& n, const Moment& m) {
    start(m);
    state_[n.block] = {now_, 0, turn_};
  }
  void on_hit(uint32_t b, const Moment& m) {
    start(m);
    Record& r = state_[b];
    Class& c = classes_[class_of(r)];
    ++c.reused;
    c.waited += now_ - r.last;
    c.halve();
    turn_ = std::max(turn_, std::min(r.turn + 1, kTurns - 1));
    r = {now_, std::min(r.uses + 1, kUses - 1), r.turn};
  }
  void on_leaf(uint32_t b) {
    const Record& r = state_[b];
    leaves_[class_of(r)].push(b, {r.last, -static_cast<int64_t>(blocks_.depth(b))});
  }
  void on_no_leaf(uint32_t b) { leaves_[class_of(state_[b])].erase(b); }
  uint32_t victim() {
    uint32_t best = kNone;
    int64_t least = 0;
    for (uint32_t k = 0; k < kClasses; ++k) {
      if (leaves_[k].empty()) {
        continue;
      }
      const uint32_t b = leaves_[k].top();
      const int64_t p = chance(classes_[k], now_ - state_[b].last);
      const bool older = best != kNone && state_[b].last < state_[best].last;
      if (best == kNone || p < least || (p == least && older)) {
        best = b;
        least = p;
      }
    }
    if (best == kNone) {
      return kNone;
    }
    const Record& r = state_[best];
    Class& c = classes_[class_of(r)];
    ++c.gone;
    c.halve();
    stay_ += ((now_ - r.last) * 64 - stay_) / 64;
    leaves_[class_of(r)].erase(best);
    score_ = least;
    return best;
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return r.uses < kUses && r.turn < kTurns;
  }
  void save_global(GlobalWriter& w) const {
    w.number(now_);
    w.number(turn_);
    w.number(stay_);
    for (const Class& c : classes_) {
      w.number(c.reused);
      w.number(c.gone);
      w.number(c.waited);
    }
  }
  void load_global(GlobalReader& r) {
    now_ = std::max<int64_t>(r.number(), 0);
    turn_ = static_cast<uint32_t>(std::clamp<int64_t>(r.number(), 0, kTurns - 1));
    stay_ = std::clamp<int64_t>(r.number(), 0, int64_t{1} << 50);
    for (Class& c : classes_) {
      c.reused = std::clamp<int64_t>(r.number(), 0, kCountMax);
      c.gone = std::clamp<int64_t>(r.number(), 0, kCountMax);
      c.waited = std::clamp<int64_t>(r.number(), 0, int64_t{1} << 50);
    }
  }

 private:
  struct Class {
    int64_t reused = 1, gone = 1, waited = 64;  // one of each before anything is known
    void halve() {
      if (reused + gone >= kCountMax) {
        reused = reused / 2 + 1;
        gone = gone / 2 + 1;
        waited /= 2;
      }
    }
  };
  static uint32_t class_of(const Record& r) { return r.turn * kUses + r.uses; }
  void start(const Moment& m) {
    const auto ordinal = static_cast<int64_t>(m.ordinal);
    if (ordinal != now_) {
      now_ = std::max(now_, ordinal);
      turn_ = 0;
    }
  }
  // Share q comes back after a mean of w requests. Not back by age a: q e^-a/w / (1 - q + q e^-a/w)
  // still will, and 1 - e^-s/w of these within the next s.
  int64_t chance(const Class& c, int64_t age) const {
    const int64_t q = fixed_div(c.reused, c.reused + c.gone);
    const int64_t mean = std::max<int64_t>(c.waited / std::max<int64_t>(c.reused, 1), 1);
    const int64_t cap = mean * 32;  // e^-32 is 0 here
    const int64_t still =
        fixed_mul(q, exp_minus(fixed_div(std::min(std::max<int64_t>(age, 0), cap), mean)));
    const int64_t will = fixed_div(still, kOne - q + still + 1);
    const int64_t soon = kOne - exp_minus(fixed_div(std::min(stay_ / 64 + 1, cap), mean));
    return fixed_mul(will, soon);
  }

  const Blocks& blocks_;
  std::vector<Record> state_;
  std::vector<Heap> leaves_;  // of each class, used longest ago first
  std::array<Class, kClasses> classes_{};
  int64_t now_ = 0;
  int64_t stay_ = 64 * 64;  // running mean of a victim's idle time, in 1/64 request
  uint32_t turn_ = 0;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(NextUse)
