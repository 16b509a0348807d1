// A policy on its way into a slot: the resident set goes to it in ranges between the messages of
// the live path, while the policy before goes on deciding. One walk of the mirror's list, oldest
// first: a block's ancestors are inserted with it, so parents come before children; what befell the
// block is told when the walk reaches it, so recency is carried over, and so are hits, for policies
// that count. Blocks that are used meanwhile move to the end of the list, and the walk meets them
// again there: of hits and releases the new policy hears in the list's order, and of nothing twice.
// Invariants: at the end of the walk it knows every resident block with its uses; the walk catches
// up, because a range is larger than what events bring.
#pragma once

#include "actors/policy_slot/block_mirror.h"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

class TakeOver {
 public:
  explicit TakeOver(uint32_t capacity) : known_(capacity) {}
  bool under_way() const noexcept { return next_ != nullptr; }
  /// `ordinal`: of the newest request that events told of.
  void begin(std::unique_ptr<policy::EvictionPolicy> next, uint64_t ordinal, BlockMirror& mirror);
  /// An event that the mirror has applied.
  void follow(const policy::Events& events);
  /// Tells of about `blocks` more; true: the new policy knows all.
  bool advance(uint64_t blocks, BlockMirror& mirror);
  std::unique_ptr<policy::EvictionPolicy> finish() noexcept { return std::move(next_); }

 private:
  void climb(uint32_t block, const BlockMirror& mirror);
  void insert(uint32_t block, const BlockMirror& mirror);
  void bring_up_to_date(uint32_t block, const BlockMirror& mirror);
  void tell(policy::Event kind, uint32_t block, uint32_t times);
  bool knows(uint32_t block) const noexcept { return known_[block].change == change_; }

  std::unique_ptr<policy::EvictionPolicy> next_;
  struct Known {
    uint16_t uses = 0;  // that the new policy was told of
    uint8_t hits = 0;
    uint8_t change = 0;  // valid for this change only
  };
  std::vector<Known> known_;    // of every block
  uint8_t change_ = 0;          // number of this change, from 1
  std::vector<uint32_t> path_;  // ancestors to insert, deepest first
  std::vector<uint32_t> some_;  // scratch
  uint64_t backlog_ = 0;        // steps that events have cost the walk since the last range
  uint64_t ordinal_ = 0;        // never falls, as the ABI has it
};

}  // namespace troupe
