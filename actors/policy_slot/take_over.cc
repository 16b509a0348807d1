#include "actors/policy_slot/take_over.h"

#include <algorithm>

namespace troupe {
namespace {

constexpr uint8_t kHitsTold = 3;  // enough to be more than once used, for every known scheme
constexpr uint64_t kNoSession = ~0ULL;

}  // namespace

void TakeOver::begin(std::unique_ptr<policy::EvictionPolicy> next, uint64_t ordinal,
                     BlockMirror& mirror) {
  next_ = std::move(next);
  if (++change_ == 0) {
    std::fill(known_.begin(), known_.end(), Known{});
    change_ = 1;
  }
  path_.clear();
  backlog_ = 0;
  ordinal_ = ordinal;
  mirror.mark_oldest();
}

void TakeOver::follow(const policy::Events& events) {
  using policy::Event;
  ordinal_ = std::max(ordinal_, events.request);
  if (events.blocks.empty()) {
    next_->on_events(events);  // of a session
    return;
  }
  if (events.kind != Event::kRemove && events.kind != Event::kRefused) {
    // What the walk must do for it: three steps for a block that came, one for one that moved.
    const bool moved = events.kind == Event::kHit || events.kind == Event::kRelease;
    backlog_ += (moved ? 1 : 3) * events.blocks.size();
    return;  // these blocks are at the end of the list now: the walk comes there
  }
  some_.clear();
  for (const uint32_t block : events.blocks) {
    if (block < known_.size() && knows(block)) {
      some_.push_back(block);
      known_[block].change = events.kind == Event::kRemove ? 0 : change_;
    }
  }
  if (!some_.empty()) {
    policy::Events known = events;
    known.blocks = some_;
    next_->on_events(known);
  }
}

void TakeOver::tell(policy::Event kind, uint32_t block, uint32_t times) {
  policy::Events e;
  e.kind = kind;
  e.request = ordinal_;
  e.session = kNoSession;
  e.blocks = {&block, 1};
  for (; times > 0; --times) {
    next_->on_events(e);
  }
}

void TakeOver::climb(uint32_t block, const BlockMirror& mirror) {
  while (mirror.known(block) && mirror.is_resident(block) && !knows(block)) {
    path_.push_back(block);
    block = mirror.parent(block);
  }
}

void TakeOver::insert(uint32_t block, const BlockMirror& mirror) {
  const uint32_t parent = mirror.parent(block);
  const uint32_t depth = mirror.depth(block);
  const uint32_t tokens = mirror.tokens(block);
  const uint64_t key = mirror.key(block);
  policy::Events e;
  e.kind = policy::Event::kInsert;
  e.request = ordinal_;
  e.session = kNoSession;
  e.tenant = mirror.tenant(block);
  e.bytes = mirror.bytes(block);
  e.blocks = {&block, 1};
  e.parents = {&parent, 1};
  e.depths = {&depth, 1};
  e.tokens = {&tokens, 1};
  e.keys = {&key, 1};
  next_->on_events(e);
  known_[block] = {1, 0, change_};  // an insert counts as one use
}

void TakeOver::bring_up_to_date(uint32_t block, const BlockMirror& mirror) {
  Known& known = known_[block];
  const auto uses = static_cast<uint16_t>(std::min<uint32_t>(mirror.uses(block), UINT16_MAX));
  const uint8_t hits = mirror.hits(block);
  // Hits that ended. One at least where a block that was idle has moved: it was used meanwhile.
  const int ended = hits - known.hits - std::max(0, uses - known.uses);
  const int moved = known.uses == 0 && uses == 0 ? 1 : 0;
  for (int i = std::clamp(ended, moved, int{kHitsTold}); i > 0; --i) {
    tell(policy::Event::kHit, block, 1);
    tell(policy::Event::kRelease, block, 1);
  }
  if (uses >= known.uses) {
    tell(policy::Event::kHit, block, static_cast<uint32_t>(uses - known.uses));
  } else {
    tell(policy::Event::kRelease, block, static_cast<uint32_t>(known.uses - uses));
  }
  known = {uses, hits, change_};
}

bool TakeOver::advance(uint64_t blocks, BlockMirror& mirror) {
  uint64_t left = blocks + backlog_;
  backlog_ = 0;
  for (; left > 0; --left) {
    if (!path_.empty()) {
      const uint32_t block = path_.back();
      path_.pop_back();
      // It may have gone, or its handle may stand for another block by now: that one's turn comes.
      const uint32_t parent = mirror.parent(block);
      const bool above = !mirror.known(parent) || !mirror.is_resident(parent) || knows(parent);
      if (mirror.is_resident(block) && !knows(block) && above) {
        insert(block, mirror);
      }
      continue;
    }
    const uint32_t block = mirror.marked();
    if (block == BlockMirror::kNone) {
      return true;
    }
    if (!knows(block)) {
      climb(block, mirror);
      continue;
    }
    bring_up_to_date(block, mirror);
    mirror.mark_next();
  }
  return false;
}

}  // namespace troupe
