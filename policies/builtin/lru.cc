// LRU: the block whose last use lies farthest back leaves. Mattson, Gecsei, Slutz, Traiger,
// "Evaluation techniques for storage hierarchies", IBM Systems Journal 1970. In a prefix tree the
// host names the blocks of a hit deepest first, so that a parent outlives its children without a
// rule for it.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

namespace {
using namespace troupe::sdk;

struct Lru {
  static constexpr Describe kAbout{.id = "lru",
                                   .paper = "Mattson et al., IBM Systems Journal 1970",
                                   .flags = TROUPE_FLAG_OBJECT_ORDER};
  using Record = Lists::Place;

  Lru(const Config& c, const Blocks& blocks) : blocks_(blocks), queue_(c.capacity, 1) {}
  void on_insert(const NewBlock& n, const Moment&) { queue_.push_front(0, n.block); }
  void on_hit(uint32_t b, const Moment&) { queue_.move_front(0, b); }
  void on_remove(uint32_t b) { queue_.drop(b); }
  uint32_t victim() {
    for (uint32_t b = queue_.back(0); b != kNone; b = queue_.toward_front(b)) {
      if (blocks_.evictable(b)) {
        queue_.unlink(b);
        return b;
      }
    }
    return kNone;
  }
  Record save(uint32_t b) const { return queue_.save(b); }
  bool load(uint32_t b, const Record& r) { return queue_.load(b, r); }
  void save_global(GlobalWriter& w) const { w.stamps(queue_); }
  void load_global(GlobalReader& r) {
    queue_.finish_load();
    r.stamps(queue_);
  }

 private:
  const Blocks& blocks_;
  Lists queue_;
};

}  // namespace

TROUPE_EVICTION_POLICY(Lru)
