// Invariants, quick and by full sweep, and the digest of the allocator.
#include "actors/allocator/allocator.h"

#include <string>

namespace troupe {

/// References of a step that waits for room: its hits, and the sources of its
/// copies, are in use before they stand in a table.
uint64_t Allocator::held_refs() const noexcept {
  uint64_t refs = 0;
  for (const NewRow& row : pending_.news) {
    refs += row.in ? row.hits + (row.partial_source != kNoBlock ? 1U : 0U) : 0;
  }
  return refs;
}

Status Allocator::check_quick() const {
  for (const SlotPool& pool : pools_) {
    if (static_cast<uint64_t>(pool.free()) + pool.quarantined() > pool.granules()) {
      return Status(Code::kInternal, "allocator: more granules free than there are");
    }
  }
  uint64_t entries = held_refs();
  for (const Sequence& sequence : sequences_) {
    entries += sequence.table.size();
  }
  if (entries != refs_total_) {
    return Status(Code::kInternal, "allocator: tables have " + std::to_string(entries) +
                                       " entries, references are " + std::to_string(refs_total_));
  }
  if (idle_granules_ > pools_[0].used()) {
    return Status(Code::kInternal, "allocator: " + std::to_string(idle_granules_) +
                                       " idle granules, " + std::to_string(pools_[0].used()) +
                                       " are used");
  }
  return unexpected_.count + stray_ == 0
             ? Status::ok()
             : Status(Code::kInternal, "allocator: unexpected messages " +
                                           std::to_string(unexpected_.count + stray_));
}

/// How many tables, and rows of a step that waits, name each block.
std::vector<uint32_t> Allocator::count_refs() const {
  std::vector<uint32_t> refs(rows_.size(), 0);
  for (const Sequence& sequence : sequences_) {
    for (const uint32_t block : sequence.table) {
      ++refs[block];
    }
  }
  if (pending_.step != 0) {
    for (const NewRow& row : pending_.news) {
      for (uint32_t i = 0; row.in && i < row.hits; ++i) {
        ++refs[pending_.blocks[row.offset + i]];
      }
      if (row.in && row.partial_source != kNoBlock) {
        ++refs[row.partial_source];
      }
    }
  }
  return refs;
}

/// One block's own facts; marks its granules in `census`.
Status Allocator::check_block(uint32_t block, uint32_t refs, Census& census) const {
  const BlockRow& row = rows_[block];
  const std::string name = "allocator: block " + std::to_string(block);
  if (refs != row.refs) {
    return Status(Code::kInternal, name + " stands in " + std::to_string(refs) +
                                       " tables, its count is " + std::to_string(row.refs));
  }
  const bool unused = row.refs == 0 && !row.indexed && row.in_flight == 0;
  if (unused != ids_.is_free(block)) {
    return Status(Code::kInternal,
                  name + (unused ? " is used by nobody and not free" : " is free and still used"));
  }
  for (size_t t = 0; t < kTierCount; ++t) {
    if (!has(block, static_cast<Tier>(t))) {
      continue;
    }
    census.used[t] += granules_of(block);
    const uint32_t first = place(block, static_cast<Tier>(t)).first;
    for (uint32_t g = first; g < first + granules_of(block); ++g) {
      if (g >= census.taken[t].size() || census.taken[t][g]) {
        return Status(Code::kInternal, name + " holds granule " + std::to_string(g) + " of tier " +
                                           std::to_string(t) +
                                           ", which is free or another block's");
      }
      census.taken[t][g] = true;
    }
    if (unused) {
      return Status(Code::kInternal, name + " is free and has a slot");
    }
  }
  // A new row's hit may lie lower until its step runs.
  if (row.refs > 0 && !has(block, Tier::kDevice) && pending_.step == 0) {
    return Status(Code::kInternal, name + " stands in a table without a device slot");
  }
  return Status::ok();
}

Status Allocator::check() const {
  TROUPE_TRY(check_quick());
  const std::vector<uint32_t> refs = count_refs();
  Census census;
  for (size_t t = 0; t < kTierCount; ++t) {
    TROUPE_TRY(pools_[t].check());
    census.taken[t] = pools_[t].free_map();
  }
  uint64_t idle = 0;
  uint64_t demoting = 0;
  uint64_t total = 0;
  for (uint32_t block = 0; block < rows_.size(); ++block) {
    TROUPE_TRY(check_block(block, refs[block], census));
    total += rows_[block].refs;
    idle += is_idle(block) ? granules_of(block) : 0;
    demoting += rows_[block].demoting ? granules_of(block) : 0;
  }
  for (size_t t = 0; t < kTierCount; ++t) {
    if (census.used[t] != pools_[t].used()) {
      return Status(Code::kInternal, "allocator: blocks hold " + std::to_string(census.used[t]) +
                                         " granules of tier " + std::to_string(t) +
                                         ", the pool counts " + std::to_string(pools_[t].used()));
    }
  }
  if (idle != idle_granules_ || demoting != demoting_granules_ || total != refs_total_) {
    return Status(Code::kInternal,
                  "allocator: " + std::to_string(idle) + " granules are idle, " +
                      std::to_string(demoting) + " on their way down; counted are " +
                      std::to_string(idle_granules_) + " and " +
                      std::to_string(demoting_granules_));
  }
  return Status::ok();
}

Digest Allocator::digest() const noexcept {
  Digest d;
  for (uint32_t block = 0; block < rows_.size(); ++block) {
    if (ids_.is_free(block)) {
      continue;
    }
    const BlockRow& row = rows_[block];
    d.add(block).add(row.refs).add(row.born).add(row.in_flight).add(row.indexed ? 1 : 0);
    for (size_t t = 0; t < kTierCount; ++t) {
      if (has(block, static_cast<Tier>(t))) {
        d.add(t).add(place(block, static_cast<Tier>(t)).first);
      }
    }
  }
  for (const Sequence& sequence : sequences_) {
    if (sequence.request != 0) {
      d.add(sequence.request).add(sequence.published).add(sequence.table.size());
    }
  }
  return d.add(pending_.step).add(places_waiting_.size()).add(copied_).add(evicted_);
}

}  // namespace troupe
