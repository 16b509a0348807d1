// CLOCK: a ring with one reference bit a block; the hand clears bits until it meets a clear one.
// Corbató, "A paging experiment with the Multics system", MIT 1968. Written as a queue whose tail
// is the hand: a referenced block goes back to the head. Blocks that may not go are treated as
// referenced.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct Clock {
  static constexpr Describe kAbout{
      .id = "clock", .paper = "Corbató, MIT Project MAC 1968", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    Lists::Place place;
    uint64_t referenced;
  };

  Clock(const Config& c, const Blocks& blocks)
      : blocks_(blocks), ring_(c.capacity, 1), referenced_(c.capacity, 0) {}
  void on_insert(const NewBlock& n, const Moment&) {
    referenced_[n.block] = 0;
    ring_.push_front(0, n.block);
  }
  void on_hit(uint32_t b, const Moment&) { referenced_[b] = 1; }
  void on_remove(uint32_t b) { ring_.drop(b); }
  uint32_t victim() {
    // Twice around meets every block with its bit cleared.
    for (uint64_t step = 2ULL * ring_.size(0) + 1; step > 0 && ring_.size(0) > 0; --step) {
      const uint32_t b = ring_.back(0);
      const bool may_go = blocks_.evictable(b);
      if (may_go && referenced_[b] == 0) {
        ring_.unlink(b);
        return b;
      }
      if (may_go) {
        referenced_[b] = 0;
      }
      ring_.move_front(0, b);
    }
    return kNone;
  }
  Record save(uint32_t b) const { return {ring_.save(b), referenced_[b]}; }
  bool load(uint32_t b, const Record& r) {
    referenced_[b] = r.referenced != 0 ? 1 : 0;
    return ring_.load(b, r.place);
  }
  void save_global(GlobalWriter& w) const { w.stamps(ring_); }
  void load_global(GlobalReader& r) {
    ring_.finish_load();
    r.stamps(ring_);
  }

 private:
  const Blocks& blocks_;
  Lists ring_;
  std::vector<uint8_t> referenced_;
};

}  // namespace

TROUPE_EVICTION_POLICY(Clock)
