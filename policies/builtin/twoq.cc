// 2Q: newcomers in a FIFO (A1in, a quarter), a ghost FIFO of what left it (A1out, half), and an LRU
// list (Am) for blocks that come back while they are ghosts. Johnson, Shasha, "2Q: a low overhead
// high performance buffer management replacement algorithm", VLDB 1994.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

namespace {
using namespace troupe::sdk;

constexpr uint8_t kIn = 0;
constexpr uint8_t kMain = 1;

struct TwoQ {
  static constexpr Describe kAbout{
      .id = "twoq", .paper = "Johnson, Shasha, VLDB 1994", .flags = TROUPE_FLAG_OBJECT_ORDER};
  using Record = Lists::Place;

  TwoQ(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        in_max_(c.capacity / 4),
        queues_(c.capacity, 2),
        out_(c.capacity / 2),
        known_(c.capacity) {}

  void on_wanted(uint64_t key) {
    if (out_.take(key)) {
      known_.push(key);
    }
  }
  void on_insert(const NewBlock& n, const Moment&) {
    const bool known = known_.take(n.key) || out_.take(n.key);
    queues_.push_front(known ? kMain : kIn, n.block);
  }
  void on_hit(uint32_t b, const Moment&) {
    if (queues_.list_of(b) == kMain) {
      queues_.move_front(kMain, b);
    }
  }
  void on_remove(uint32_t b) { queues_.drop(b); }
  uint32_t victim() {
    const bool from_in = queues_.size(kIn) > in_max_ || queues_.size(kMain) == 0;
    const uint32_t b = take(from_in ? kIn : kMain);
    return b != kNone ? b : take(from_in ? kMain : kIn);
  }
  Record save(uint32_t b) const { return queues_.save(b); }
  bool load(uint32_t b, const Record& r) { return queues_.load(b, r); }
  void save_global(GlobalWriter& w) const {
    w.stamps(queues_);
    w.ghosts(out_);
  }
  void load_global(GlobalReader& r) {
    queues_.finish_load();
    r.stamps(queues_);
    r.ghosts(out_);
  }

 private:
  uint32_t take(uint8_t queue) {
    for (uint32_t b = queues_.back(queue); b != kNone; b = queues_.toward_front(b)) {
      if (blocks_.evictable(b)) {
        queues_.unlink(b);
        if (queue == kIn) {
          out_.push(blocks_.key(b));
        }
        return b;
      }
    }
    return kNone;
  }

  const Blocks& blocks_;
  uint32_t in_max_;
  Lists queues_;
  Ghosts out_;
  Ghosts known_;
};

}  // namespace

TROUPE_EVICTION_POLICY(TwoQ)
