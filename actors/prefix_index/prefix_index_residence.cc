// Blocks leave tiers and change them. `unlink` is the one atomic check of what may go; tiering
// moves the bytes; `settle` makes it true and tells the allocator which slots are free.
#include "actors/prefix_index/prefix_index.h"

#include <algorithm>
#include <utility>

namespace troupe {

using prefix::leaving;
using prefix::Motion;

void PrefixIndex::on_unlink(wire::Unlink::Reader unlink, StepContext& cx) {
  const uint8_t tier = unlink.getTier();
  std::vector<uint32_t> leave;
  std::vector<uint32_t> stay;
  for (const uint32_t block : span_of<uint32_t>(unlink.getVictims())) {
    if (tier < kTierCount && tree_.may_leave(block, tier)) {
      tree_.set_motion(block, leaving(tier));  // from here on it is no child for those that follow
      leave.push_back(block);
    } else {
      stay.push_back(block);
    }
  }
  refused_ += stay.size();
  events_.open(wire::EventKind::REFUSED, tier, nullptr);
  for (const uint32_t block : stay) {
    if (tree_.live(block)) {
      events_.add(tree_, block);
    }
  }
  events_.flush(cx.out);
  send_unlinked(leave, tier, static_cast<uint32_t>(stay.size()),
                unlink.getAhead() ? RoomFor::kReserve : RoomFor::kStep, cx);
}

void PrefixIndex::fill_leaving(wire::Leaving::Builder out, uint32_t block, uint8_t tier) const {
  out.setBlock(block);
  out.setAlsoIn(tree_.mask(block) & static_cast<uint8_t>(~(1U << tier)));
  out.setDepth(tree_.depth(block));
  out.setTokens(tree_.count(block));
  out.setUses(tree_.uses(block));
  out.setTenant(tree_.tenant(block));
  out.setBlockClass(tree_.make(block) & static_cast<uint8_t>(~prefix::kOpaqueBit));
  out.setKey(data_of(std::span(&tree_.key(block), 1)));
}

void PrefixIndex::send_unlinked(std::span<const uint32_t> blocks, uint8_t tier, uint32_t refused,
                                RoomFor room, StepContext& cx) {
  cx.out.send(Kind::UNLINKED, blocks.size() * 9 + 2, [&](wire::Message::Builder m) {
    auto unlinked = m.initUnlinked();
    unlinked.setTier(tier);
    unlinked.setRefused(refused);
    unlinked.setReclaim(room != RoomFor::kNobody);
    unlinked.setAhead(room == RoomFor::kReserve);
    auto list = unlinked.initBlocks(static_cast<unsigned>(blocks.size()));
    for (unsigned i = 0; i < blocks.size(); ++i) {
      fill_leaving(list[i], blocks[i], tier);
    }
  });
}

void PrefixIndex::on_settle(wire::Settle::Reader settle, StepContext& cx) {
  for (const auto item : settle.getItems()) {
    settle_one(item);
    wake_for_block(item.getBlock());
  }
  events_.flush(cx.out);
  send_released(settle.getTier(), settle.getReclaim(), cx);
  send_ready(cx);
}

void PrefixIndex::settle_one(wire::Settlement::Reader item) {
  const uint32_t block = item.getBlock();
  if (item.getOutcome() == wire::Outcome::COPIED && tree_.known(block) &&
      item.getTo() < kTierCount && tree_.on(block, item.getTo())) {
    return;  // late word of a load that a publish has settled; what moves the block now is another
  }
  if (tree_.doomed(block)) {
    settle_doomed(block, item.getTo());
    return;
  }
  if (!tree_.live(block) || item.getFrom() >= kTierCount) {
    ++stray_;
    return;
  }
  const bool loading = tree_.motion(block) == Motion::kLoading;
  switch (item.getOutcome()) {
    case wire::Outcome::DROPPED:
    case wire::Outcome::MOVED:
      settle_leaving(item);
      return;
    case wire::Outcome::COPIED:
      if (item.getTo() >= kTierCount || ((config_.tiers >> item.getTo()) & 1U) == 0) {
        ++stray_;
        return;
      }
      settle_copied(block, item.getTo());
      return;
    case wire::Outcome::LOST:
      settle_lost(item);
      return;
    case wire::Outcome::FAILED:
      break;
    default:
      ++stray_;
      return;
  }
  if (loading) {
    drop_load(block);
  } else if (tree_.motion(block) == leaving(0) && item.getFrom() == 0 &&
             tree_.parent(block) != kNoBlock && !tree_.on(tree_.parent(block), 0)) {
    settle_leaving(item);  // its parent has left the device meanwhile, so it can't stay
    return;
  } else if (tree_.motion(block) == leaving(item.getFrom())) {
    events_.one(wire::EventKind::REFUSED, item.getFrom(), nullptr, tree_, block);
  }
  tree_.set_motion(block, Motion::kNone);
  void_copy(block, item.getTo());
}

/// A copy that never became one: its slot, if there is one, is free.
void PrefixIndex::void_copy(uint32_t block, uint8_t tier) {
  if (tier < kTierCount && ((config_.tiers >> tier) & 1U) != 0 && !tree_.on(block, tier)) {
    releases_.push_back({block, tier, false, false, false});
  } else {
    releases_.push_back({block, 0, false, false, true});
  }
}

/// The row that waited for this load goes without it and all that lie behind it.
void PrefixIndex::drop_load(uint32_t block) {
  const auto owner = loads_.find(block);
  if (owner == loads_.end()) {
    return;
  }
  Row& row = *rows_.find(owner->second);
  const auto place = std::find(row.loading.begin(), row.loading.end(), block);
  forget_loads(row, static_cast<size_t>(place - row.loading.begin()) + 1);
  set_pending(row);
  wake_for_request(row, false);
}

void PrefixIndex::settle_leaving(wire::Settlement::Reader item) {
  const uint32_t block = item.getBlock();
  const uint8_t from = item.getFrom();
  const uint8_t to = item.getTo();
  if (tree_.motion(block) != leaving(from) || !tree_.on(block, from)) {
    ++stray_;
    return;
  }
  const bool moved = item.getOutcome() == wire::Outcome::MOVED && to < kTierCount &&
                     ((config_.tiers >> to) & 1U) != 0;
  // A child whose own move failed keeps its parent where it is.
  const bool child_stays = from == 0 && tree_.children_on(0, block) != 0;
  if (!moved && !child_stays && tree_.mask(block) == (1U << from)) {
    tree_.set_motion(block, Motion::kNone);
    if (!tree_.has_children(block)) {  // nearly always; what was leaving is leased by nobody
      events_.one(wire::EventKind::REMOVE, from, nullptr, tree_, block);
      tree_.remove(block);
      releases_.push_back({block, from, true, false, false});
      return;
    }
    std::vector<uint32_t> gone;
    tree_.collect_subtree(block, gone);
    remove_blocks(gone, kTierCount);  // the slots of copies not yet known go with it
    return;
  }
  tree_.set_motion(block, Motion::kNone);
  if (child_stays) {
    events_.one(wire::EventKind::REFUSED, from, nullptr, tree_, block);
    releases_.push_back({block, from, false, false, true});
  } else {
    tree_.drop_tier(block, from);
    events_.one(wire::EventKind::REMOVE, from, nullptr, tree_, block);
    releases_.push_back({block, from, false, false, false});
  }
  if (moved && !tree_.on(block, to)) {
    tree_.add_tier(block, to);
    events_.one(wire::EventKind::DEMOTED, to, nullptr, tree_, block);
  } else if (!moved) {
    void_copy(block, to);
  }
}

void PrefixIndex::settle_copied(uint32_t block, uint8_t to) {
  if (tree_.motion(block) == Motion::kLoading) {
    tree_.set_motion(block, Motion::kNone);
  } else if (tree_.motion(block) != Motion::kNone) {
    events_.one(wire::EventKind::REFUSED, static_cast<uint8_t>(tree_.motion(block)) - 1, nullptr,
                tree_, block);
    tree_.set_motion(block, Motion::kNone);
  }
  releases_.push_back({block, to, false, false, true});
  if (to == 0 && tree_.parent(block) != kNoBlock && !tree_.on(tree_.parent(block), 0)) {
    drop_load(block);  // its parent did not come up, so neither does it
    releases_.back().kept = false;
    return;
  }
  tree_.add_tier(block, to);
  const auto owner = loads_.find(block);
  if (to != 0) {
    stage_came_ += 1;
    staged_.insert(block);
    events_.one(wire::EventKind::DEMOTED, to, nullptr, tree_, block);
  } else if (owner == loads_.end()) {
    events_.one(wire::EventKind::PROMOTED, 0, nullptr, tree_, block);
    events_.one(wire::EventKind::RELEASE, 0, nullptr, tree_,
                block);  // nobody waits for it any more
  } else {
    Row& row = *rows_.find(owner->second);
    if (row.loading.back() != block) {
      // Loads settle in the order of the path; one out of order ends the row's share of them.
      drop_load(block);
      events_.one(wire::EventKind::PROMOTED, 0, nullptr, tree_, block);
      events_.one(wire::EventKind::RELEASE, 0, nullptr, tree_, block);
      return;
    }
    row.loading.pop_back();
    loads_.erase(owner);
    row.first.loaded += row.first.done == 1 ? 1 : 0;
    take_place(row, block, row.used, wire::EventKind::PROMOTED);
  }
}

void PrefixIndex::settle_lost(wire::Settlement::Reader item) {
  const uint32_t block = item.getBlock();
  const uint8_t from = item.getFrom();
  if (!tree_.on(block, from)) {
    ++stray_;
    return;
  }
  if (tree_.motion(block) == Motion::kLoading) {
    drop_load(block);
  }
  tree_.set_motion(block, Motion::kNone);
  if (item.getTo() != from) {
    void_copy(block, item.getTo());
  }
  const bool elsewhere = (tree_.mask(block) & ~(1U << from)) != 0;
  if (elsewhere && from != 0) {
    tree_.drop_tier(block, from);
    events_.one(wire::EventKind::REMOVE, from, nullptr, tree_, block);
    releases_.push_back({block, from, false, true, false});
    return;
  }
  std::vector<uint32_t> gone;
  tree_.collect_subtree(block, gone);
  remove_blocks(gone, from);
}

void PrefixIndex::settle_doomed(uint32_t block, uint8_t to) {
  const uint8_t mask = tree_.mask(block);
  tree_.forget_doomed(block);
  for (auto& [id, row] : rows_) {
    std::erase(row.doomed_loads, block);
  }
  if (to < kTierCount && ((mask >> to) & 1U) == 0) {
    leaves_of(block).push_back({block, to, false, false, false});
  }
  release_all(block, mask, kTierCount);
}

/// All slots of a block that left the tree; the last one says that it is gone.
void PrefixIndex::release_all(uint32_t block, uint8_t mask, uint8_t quarantine_tier) {
  for (uint8_t tier = kTierCount; tier-- > 0;) {
    if (((mask >> tier) & 1U) != 0) {
      const bool last = (mask & ((1U << tier) - 1U)) == 0;
      leaves_of(block).push_back({block, tier, last, tier == quarantine_tier, false});
    }
  }
}

/// Where a release of the block belongs: with those of this step, or with those that wait.
std::vector<PrefixIndex::Leave>& PrefixIndex::leaves_of(uint32_t block) {
  const auto kept = kept_back_.find(block);
  return kept == kept_back_.end() ? releases_ : kept->second.leaves;
}

void PrefixIndex::keep_back(Row& row, uint32_t block) {
  row.kept_back.push_back(block);
  ++kept_back_[block].rows;
}

/// The allocator has seen the row's step: what was purged under it may be released now.
void PrefixIndex::step_came_back(Row& row, bool ran) {
  row.riding = false;
  const std::vector<uint32_t> loads = std::exchange(row.doomed_loads, {});
  for (const uint32_t block : loads) {
    if (!ran) {  // and nothing was loaded, so no word of it comes
      settle_doomed(block, kTierCount);
    }
  }
  for (const uint32_t block : row.kept_back) {
    const auto kept = kept_back_.find(block);
    if (--kept->second.rows == 0) {
      releases_.insert(releases_.end(), kept->second.leaves.begin(), kept->second.leaves.end());
      kept_back_.erase(kept);
    }
  }
  row.kept_back.clear();
}

void PrefixIndex::remove_blocks(const std::vector<uint32_t>& blocks, uint8_t quarantine_tier) {
  // Only the root of what goes, the last one, can have bytes that are to be kept from use.
  std::vector<uint32_t> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  detach_rows(sorted);
  for (uint8_t tier = 0; tier < kTierCount; ++tier) {
    events_.open(wire::EventKind::REMOVE, tier, nullptr);
    for (const uint32_t block : blocks) {
      if (tree_.on(block, tier)) {
        events_.add(tree_, block);
      }
    }
  }
  for (const uint32_t block : blocks) {
    const uint8_t mask = tree_.mask(block);
    const bool moves = tree_.motion(block) != Motion::kNone;
    tree_.remove(block);
    if (moves) {
      tree_.set_doomed(block, mask);
    } else {
      release_all(block, mask, block == blocks.back() ? quarantine_tier : kTierCount);
    }
    wake_for_block(block);
  }
}

/// Rows whose path leads through the blocks (ascending ids) keep what is above them and publish
/// nothing more; the blocks they hold are released by the allocator when their tables end.
void PrefixIndex::detach_rows(const std::vector<uint32_t>& sorted) {
  // Rows hold blocks by leases and loads only; what is merely evicted has neither.
  const bool held = std::any_of(sorted.begin(), sorted.end(), [&](uint32_t block) {
    return tree_.leases(block) > 0 || tree_.motion(block) == Motion::kLoading;
  });
  if (!held) {
    return;
  }
  const auto going = [&](uint32_t block) {
    return std::binary_search(sorted.begin(), sorted.end(), block);
  };
  for (auto& [id, row] : rows_) {
    if (row.partial_source != kNoBlock && going(row.partial_source)) {
      tree_.unlease(row.partial_source);
      if (row.riding) {
        keep_back(row, row.partial_source);
      }
      row.partial_source = kNoBlock;
    }
    size_t loads = row.loading.size();
    while (loads > 0 && !going(row.loading[loads - 1])) {
      --loads;
    }
    const bool cut_below = loads > 0;
    if (row.riding) {
      row.doomed_loads.insert(row.doomed_loads.end(), row.loading.begin(),
                              row.loading.begin() + static_cast<ptrdiff_t>(loads));
    }
    forget_loads(row, loads);
    uint32_t anchor = row.anchor;
    while (anchor != kNoBlock && going(anchor)) {
      if (row.riding) {
        keep_back(row, anchor);
      }
      anchor = tree_.parent(anchor);
    }
    const bool moved_up = anchor != row.anchor;
    if (moved_up) {
      tree_.unlease(row.anchor);
      row.anchor = anchor;
      row.used = anchor == kNoBlock ? 0 : tree_.depth(anchor) + 1;
      if (anchor != kNoBlock) {
        tree_.lease(anchor);
      }
    }
    if (cut_below || moved_up) {
      row.cut = true;
      set_pending(row);
      wake_for_request(row, false);
    }
  }
}

void PrefixIndex::send_released(uint8_t tier, bool reclaim, StepContext& cx) {
  constexpr size_t kItemsPerMessage = 32768;
  size_t at = 0;
  do {
    const size_t n = std::min(kItemsPerMessage, releases_.size() - at);
    const bool last = at + n == releases_.size();
    if (n == 0 && !reclaim) {
      break;
    }
    cx.out.send(Kind::RELEASED, n * 2 + 2, [&](wire::Message::Builder m) {
      auto released = m.initReleased();
      released.setTier(tier);
      released.setCommit(published_);
      released.setReclaim(reclaim && last);
      auto items = released.initItems(static_cast<unsigned>(n));
      for (unsigned i = 0; i < n; ++i) {
        const Leave& leave = releases_[at + i];
        items[i].setBlock(leave.block);
        items[i].setTier(leave.tier);
        items[i].setGone(leave.gone);
        items[i].setQuarantine(leave.quarantine);
        items[i].setKept(leave.kept);
      }
    });
    at += n;
  } while (at < releases_.size());
  releases_.clear();
}

}  // namespace troupe
