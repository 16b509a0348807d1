// FIFO: blocks leave in the order in which they came. In a prefix tree blocks that may not go are
// passed over. Belady, Nelson, Shedler, "An anomaly in space-time characteristics", CACM 1969, is
// its best story.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

namespace {
using namespace troupe::sdk;

struct Fifo {
  static constexpr Describe kAbout{.id = "fifo",
                                   .paper = "Belady, Nelson, Shedler, CACM 1969",
                                   .flags = TROUPE_FLAG_OBJECT_ORDER};
  using Record = Lists::Place;

  Fifo(const Config& c, const Blocks& blocks) : blocks_(blocks), queue_(c.capacity, 1) {}
  void on_insert(const NewBlock& n, const Moment&) { queue_.push_front(0, n.block); }
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

TROUPE_EVICTION_POLICY(Fifo)
