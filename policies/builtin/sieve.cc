// SIEVE over objects.
// Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU", NSDI 2024: one queue, newest at
// the head, one visited bit; the hand walks from the tail to the head, clears bits and takes the
// first clear block; survivors keep their place. Changed: a block that may not go is passed over
// with its bit untouched, so the hand gives up after three rounds.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <vector>

namespace {
using namespace troupe::sdk;

struct Sieve {
  static constexpr Describe kAbout{
      .id = "sieve", .paper = "Zhang et al., NSDI 2024", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    Lists::Place place;
    uint64_t visited;
  };

  Sieve(const Config& c, const Blocks& blocks)
      : blocks_(blocks), queue_(c.capacity, 1), visited_(c.capacity, 0) {}
  void on_insert(const NewBlock& n, const Moment&) {
    visited_[n.block] = 0;
    queue_.push_front(0, n.block);
  }
  void on_hit(uint32_t b, const Moment&) { visited_[b] = 1; }
  void on_remove(uint32_t b) {
    if (hand_ == b) {
      hand_ = queue_.toward_front(b);
    }
    queue_.drop(b);
  }
  uint32_t victim() {
    uint32_t b = hand_ == kNone ? queue_.back(0) : hand_;
    for (uint64_t step = 3ULL * queue_.size(0) + 3; step > 0 && b != kNone; --step) {
      const uint32_t next = queue_.toward_front(b);
      if (blocks_.evictable(b)) {
        if (visited_[b] == 0) {
          hand_ = next;
          queue_.unlink(b);
          return b;
        }
        visited_[b] = 0;
      }
      b = next == kNone ? queue_.back(0) : next;
    }
    hand_ = b;
    return kNone;
  }
  Record save(uint32_t b) const { return {queue_.save(b), visited_[b]}; }
  bool load(uint32_t b, const Record& r) {
    visited_[b] = r.visited != 0 ? 1 : 0;
    return queue_.load(b, r.place);
  }
  void save_global(GlobalWriter& w) const {
    w.stamps(queue_);
    w.number(hand_);
  }
  void load_global(GlobalReader& r) {
    queue_.finish_load();
    r.stamps(queue_);
    const int64_t hand = r.number();
    hand_ = hand >= 0 && hand < blocks_.capacity() && queue_.linked(static_cast<uint32_t>(hand))
                ? static_cast<uint32_t>(hand)
                : kNone;
  }

 private:
  const Blocks& blocks_;
  Lists queue_;
  std::vector<uint8_t> visited_;
  uint32_t hand_ = kNone;
};

}  // namespace

TROUPE_EVICTION_POLICY(Sieve)
