// Priorities with a time to live, as in TensorRT-LLM's KV cache manager (NVIDIA, 2024): a block has
// a priority of 0 … 100, 35 unless its range says otherwise, for ever or for a time; the lowest
// goes first, of equals the one used longest ago, leaves only. Ranges are parameters: the first
// `head_blocks` of a sequence, and all blocks of requests that ask to be kept (hint pin). Time is
// that of the events.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint32_t kHintPin = 1;  // as in the request's hints
constexpr int64_t kBlocksMax = 1 << 24;
constexpr int64_t kMsMax = 1000000000000;

struct PriorityTtl {
  static constexpr Describe kAbout{.id = "priority_ttl",
                                   .paper = "NVIDIA, TensorRT-LLM KV cache retention, 2024"};
  static constexpr std::array kParams = {
      troupe_param_desc{"usual", "priority outside the ranges", 0, 100, 35},
      troupe_param_desc{"head_blocks", "length of the first range of a sequence", 0, kBlocksMax, 0},
      troupe_param_desc{"head_priority", "priority of the first range", 0, 100, 80},
      troupe_param_desc{"head_ms", "for how long; 0: for ever", 0, kMsMax, 0},
      troupe_param_desc{"pin_priority", "priority of requests with the hint pin", 0, 100, 100},
      troupe_param_desc{"pin_ms", "for how long; 0: for ever", 0, kMsMax, 0}};
  struct Record {
    int64_t last;     // stamp of the last use
    int64_t expires;  // tick [ns] at which the priority falls back; never: kForever
    int64_t priority;
  };

  PriorityTtl(const Config& c, const Blocks&)
      : usual_(static_cast<int64_t>(c.params["usual"])),
        head_blocks_(static_cast<uint32_t>(c.params["head_blocks"])),
        head_{static_cast<int64_t>(c.params["head_priority"]),
              ns(static_cast<int64_t>(c.params["head_ms"]))},
        pin_{static_cast<int64_t>(c.params["pin_priority"]),
             ns(static_cast<int64_t>(c.params["pin_ms"]))},
        leaves_(c.capacity),
        expiring_(c.capacity),
        state_(c.capacity) {}

  void on_insert(const NewBlock& n, const Moment& m) { use(n.block, n.depth, m); }
  void on_hit(uint32_t b, const Moment& m) {
    now_ = std::max(now_, m.at);
    state_[b].last = ++clock_;
    if ((m.hints & kHintPin) != 0) {
      give(b, pin_);
    }
  }
  void on_leaf(uint32_t b) { leaves_.push(b, {state_[b].priority, state_[b].last}); }
  void on_no_leaf(uint32_t b) { leaves_.erase(b); }
  void on_remove(uint32_t b) { expiring_.erase(b); }
  uint32_t victim() {
    while (!expiring_.empty() && expiring_.top_rank().major <= now_) {
      const uint32_t b = expiring_.pop();
      state_[b].priority = usual_;
      state_[b].expires = kForever;
      if (leaves_.holds(b)) {
        on_leaf(b);
      }
    }
    if (leaves_.empty()) {
      return kNone;
    }
    score_ = leaves_.top_rank().major;
    const uint32_t b = leaves_.pop();
    expiring_.erase(b);
    return b;
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    if (r.expires != kForever) {
      expiring_.push(b, {r.expires, 0});
    }
    return r.priority >= 0 && r.priority <= 100;
  }
  void save_global(GlobalWriter& w) const {
    w.number(clock_);
    w.number(now_);
  }
  void load_global(GlobalReader& r) {
    clock_ = r.number();
    now_ = r.number();
  }

 private:
  static constexpr int64_t kForever = INT64_MAX;
  struct Range {
    int64_t priority, ns;
  };
  static int64_t ns(int64_t ms) { return ms * 1000000; }
  void use(uint32_t b, uint32_t depth, const Moment& m) {
    now_ = std::max(now_, m.at);
    expiring_.erase(b);
    state_[b] = {++clock_, kForever, usual_};
    if (depth < head_blocks_) {
      give(b, head_);
    }
    if ((m.hints & kHintPin) != 0) {
      give(b, pin_);
    }
  }
  void give(uint32_t b, const Range& range) {
    state_[b].priority = range.priority;
    state_[b].expires = range.ns == 0 ? kForever : now_ + range.ns;
    if (range.ns == 0) {
      expiring_.erase(b);
    } else {
      expiring_.push(b, {state_[b].expires, 0});
    }
  }

  int64_t usual_;
  uint32_t head_blocks_;
  Range head_, pin_;
  Heap leaves_;
  Heap expiring_;
  std::vector<Record> state_;
  int64_t clock_ = 0;
  int64_t now_ = 0;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(PriorityTtl)
