// Tail-first LRU as in vLLM's free queue (Kwon et al., SOSP 2023): blocks nobody uses stand in a
// queue in the order in which they were released, the deepest of a request first; a hit takes its
// blocks out; the oldest leaves. It needs no rule about leaves: a parent is always released after
// its child.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

namespace {
using namespace troupe::sdk;

struct VllmLru {
  static constexpr Describe kAbout{.id = "vllm_lru", .paper = "Kwon et al., SOSP 2023"};
  using Record = Lists::Place;

  VllmLru(const Config& c, const Blocks& blocks) : blocks_(blocks), free_(c.capacity, 1) {}
  void on_hit(uint32_t b, const Moment&) { free_.drop(b); }
  void on_idle(uint32_t b) { free_.move_front(0, b); }
  void on_remove(uint32_t b) { free_.drop(b); }
  uint32_t victim() {
    for (uint32_t b = free_.back(0); b != kNone; b = free_.toward_front(b)) {
      if (blocks_.evictable(b)) {
        free_.unlink(b);
        return b;
      }
    }
    return kNone;
  }
  Record save(uint32_t b) const { return free_.save(b); }
  bool load(uint32_t b, const Record& r) { return free_.load(b, r); }
  void save_global(GlobalWriter& w) const { w.stamps(free_); }
  void load_global(GlobalReader& r) {
    free_.finish_load();
    r.stamps(free_);
  }

 private:
  const Blocks& blocks_;
  Lists free_;
};

}  // namespace

TROUPE_EVICTION_POLICY(VllmLru)
