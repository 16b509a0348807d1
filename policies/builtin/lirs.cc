// LIRS: blocks with a low inter-reference recency (LIR, 99 %) stay; the others (HIR, 1 %) pass
// through a FIFO. Jiang, Zhang, "LIRS: an efficient low inter-reference recency set replacement
// policy", SIGMETRICS 2002. Stack S orders recency over LIR blocks, resident HIR blocks and ghosts;
// its bottom is always LIR. Changed: ghosts are capped at the capacity, oldest first; a block that
// may not go is passed over.
//   Nodes of S: handles below the capacity, ghosts above it.
#include "policies/sdk/eviction.h"
#include "policies/sdk/lists.h"

#include <algorithm>
#include <vector>

namespace {
using namespace troupe::sdk;

struct Lirs {
  static constexpr Describe kAbout{
      .id = "lirs", .paper = "Jiang, Zhang, SIGMETRICS 2002", .flags = TROUPE_FLAG_OBJECT_ORDER};
  struct Record {
    Lists::Place stack, queue;
    uint64_t lir;
  };

  Lirs(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        capacity_(c.capacity),
        hir_max_(std::max(1U, c.capacity / 100)),
        lir_max_(c.capacity - std::min(hir_max_, c.capacity)),
        stack_(2 * c.capacity, 1),
        queue_(c.capacity, 1),
        age_(2 * c.capacity, 1),
        ghosts_(c.capacity),
        known_(c.capacity),
        ghost_key_(c.capacity, 0),
        lir_(c.capacity, 0) {
    for (uint32_t g = capacity_; g > 0; --g) {
      free_ghosts_.push_back(g - 1);
    }
  }

  void on_wanted(uint64_t key) {
    if (drop_ghost(key)) {
      known_.push(key);
    }
  }
  void on_insert(const NewBlock& n, const Moment&) {
    const bool known = known_.take(n.key) || drop_ghost(n.key);
    stack_.push_front(0, n.block);
    lir_[n.block] = 0;
    if (known || lir_count_ < lir_max_) {
      promote(n.block);
    } else {
      queue_.push_front(0, n.block);
    }
    prune();
  }
  void on_hit(uint32_t b, const Moment&) {
    const bool in_stack = stack_.linked(b);
    stack_.move_front(0, b);
    if (lir_[b] == 0) {
      if (in_stack) {
        queue_.drop(b);
        promote(b);
      } else {
        queue_.move_front(0, b);
      }
    }
    prune();
  }
  void on_remove(uint32_t b) {
    leave(b);
    prune();
  }
  uint32_t victim() {
    uint32_t b = queue_.back(0);
    while (b != kNone && !blocks_.evictable(b)) {
      b = queue_.toward_front(b);
    }
    if (b == kNone) {  // only LIR blocks may go: the one used longest ago
      for (b = stack_.back(0); b != kNone; b = stack_.toward_front(b)) {
        if (b < capacity_ && blocks_.evictable(b)) {
          break;
        }
      }
    }
    if (b == kNone) {
      return kNone;
    }
    const bool was_in_stack = stack_.linked(b) && lir_[b] == 0;
    if (was_in_stack) {
      make_ghost(b);
    }
    leave(b);
    prune();
    return b;
  }
  Record save(uint32_t b) const { return {stack_.save(b), queue_.save(b), lir_[b]}; }
  bool load(uint32_t b, const Record& r) {
    lir_[b] = r.lir != 0 ? 1 : 0;
    lir_count_ += lir_[b];
    return stack_.load(b, r.stack) && queue_.load(b, r.queue);
  }
  // Ghosts stand in the stack between blocks; their places do not fit into the record and are
  // forgotten.
  void save_global(GlobalWriter& w) const {
    w.stamps(stack_);
    w.stamps(queue_);
  }
  void load_global(GlobalReader& r) {
    stack_.finish_load();
    queue_.finish_load();
    r.stamps(stack_);
    r.stamps(queue_);
  }

 private:
  void promote(uint32_t b) {
    lir_[b] = 1;
    ++lir_count_;
    while (lir_count_ > lir_max_) {
      demote_bottom();
    }
  }
  // The LIR block at the bottom of the stack becomes HIR, the newest of the queue.
  void demote_bottom() {
    prune();
    const uint32_t b = stack_.back(0);
    if (b == kNone) {
      return;
    }
    stack_.unlink(b);
    lir_[b] = 0;
    --lir_count_;
    queue_.push_front(0, b);
    prune();
  }
  void prune() {
    for (uint32_t b = stack_.back(0); b != kNone; b = stack_.back(0)) {
      if (b < capacity_ && lir_[b] != 0) {
        break;
      }
      stack_.unlink(b);
      if (b >= capacity_) {
        free_ghost(b - capacity_);
      }
    }
  }
  void leave(uint32_t b) {
    stack_.drop(b);
    queue_.drop(b);
    lir_count_ -= lir_[b];
    lir_[b] = 0;
  }
  void make_ghost(uint32_t b) {
    if (free_ghosts_.empty()) {
      const uint32_t oldest = age_.back(0);
      stack_.drop(oldest);
      free_ghost(oldest - capacity_);
    }
    const uint32_t g = free_ghosts_.back();
    free_ghosts_.pop_back();
    ghost_key_[g] = blocks_.key(b);
    ghosts_.put(ghost_key_[g], g);
    age_.push_front(0, capacity_ + g);
    stack_.replace(b, capacity_ + g);
  }
  bool drop_ghost(uint64_t key) {
    const uint32_t g = ghosts_.find(key);
    if (g == kNone) {
      return false;
    }
    stack_.drop(capacity_ + g);
    free_ghost(g);
    return true;
  }
  void free_ghost(uint32_t g) {
    ghosts_.erase(ghost_key_[g]);
    age_.drop(capacity_ + g);
    free_ghosts_.push_back(g);
  }

  const Blocks& blocks_;
  uint32_t capacity_;
  uint32_t hir_max_;
  uint32_t lir_max_;
  Lists stack_;
  Lists queue_;
  Lists age_;  // ghosts by the time at which they became ghosts
  KeyMap ghosts_;
  Ghosts known_;
  std::vector<uint64_t> ghost_key_;
  std::vector<uint32_t> free_ghosts_;
  std::vector<uint8_t> lir_;
  uint32_t lir_count_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(Lirs)
