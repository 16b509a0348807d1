// Invariants by full sweep, digest, save and load of the allocator.
#include "actors/allocator/allocator.h"

#include <string>

namespace troupe {

Status Allocator::check_quick() const {
  uint64_t quarantined = 0;
  for (const SlotPool& pool : pools_) {
    quarantined += pool.quarantined();
    if (static_cast<uint64_t>(pool.free()) + pool.quarantined() > pool.granules()) {
      return Status(Code::kInternal, "allocator: more granules free than there are");
    }
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

Status Allocator::check() const {
  TROUPE_TRY(check_quick());
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
    }
  }
  std::array<uint64_t, kTierCount> used{};
  uint64_t idle = 0;
  uint64_t total = 0;
  for (uint32_t block = 0; block < rows_.size(); ++block) {
    const BlockRow& row = rows_[block];
    const std::string name = "allocator: block " + std::to_string(block);
    if (refs[block] != row.refs) {
      return Status(Code::kInternal, name + " stands in " + std::to_string(refs[block]) +
                                         " tables, its count is " + std::to_string(row.refs));
    }
    total += row.refs;
    const bool unused = row.refs == 0 && !row.indexed && row.in_flight == 0;
    if (unused != ids_.is_free(block)) {
      return Status(Code::kInternal, name + (unused ? " is used by nobody and not free"
                                                    : " is free and still used"));
    }
    for (size_t t = 0; t < kTierCount; ++t) {
      if (has(block, static_cast<Tier>(t))) {
        used[t] += granules_of(block);
        if (unused) {
          return Status(Code::kInternal, name + " is free and has a slot");
        }
      }
    }
    if (row.refs > 0 && !has(block, Tier::kDevice)) {
      // A new row's hit may lie lower until its step runs.
      bool waits = pending_.step != 0;
      if (!waits) {
        return Status(Code::kInternal, name + " stands in a table without a device slot");
      }
    }
    idle += is_idle(block) ? granules_of(block) : 0;
  }
  for (size_t t = 0; t < kTierCount; ++t) {
    TROUPE_TRY(pools_[t].check());
    if (used[t] != pools_[t].used()) {
      return Status(Code::kInternal, "allocator: blocks hold " + std::to_string(used[t]) +
                                         " granules of tier " + std::to_string(t) +
                                         ", the pool counts " + std::to_string(pools_[t].used()));
    }
  }
  if (idle != idle_granules_ || total != refs_total_) {
    return Status(Code::kInternal, "allocator: " + std::to_string(idle) + " granules are idle, " +
                                       std::to_string(idle_granules_) + " are counted");
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
    d.add(block).add(row.refs).add(row.generation).add(row.in_flight).add(row.indexed ? 1 : 0);
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

Status Allocator::save(StateSink& sink) const {
  if (pending_.step != 0 || !places_waiting_.empty()) {
    return Status(Code::kFailedPrecondition,
                  "allocator: a step or a placement waits for room; saved between steps only");
  }
  sink.u32(1);
  for (const SlotPool& pool : pools_) {
    pool.save(sink);
  }
  sink.u64(rows_.size());
  for (uint32_t block = 0; block < rows_.size(); ++block) {
    const BlockRow& row = rows_[block];
    sink.u32(row.refs);
    sink.u32(row.generation);
    sink.u32(row.in_flight);
    sink.u8(row.block_class);
    sink.u8(static_cast<uint8_t>((row.indexed ? 1 : 0) | (row.leaving ? 2 : 0) |
                                 (row.quarantine ? 4 : 0)));
    for (size_t t = 0; t < kTierCount; ++t) {
      if (!places_[t].empty()) {
        sink.u32(places_[t][block].first);
        sink.u32(places_[t][block].generation);
      }
    }
  }
  for (const Sequence& sequence : sequences_) {
    sink.u64(sequence.request);
    sink.u8(sequence.block_class);
    sink.u32(sequence.published);
    sink.u32(sequence.told);
    sink.u32(sequence.valid);
    sink.array(sequence.table);
  }
  for (const bool open : reclaim_open_) {
    sink.u8(open ? 1 : 0);
  }
  sink.u32(next_id_hint_);
  sink.u32(next_slot_generation_);
  sink.u32(peak_used_);
  sink.u64(used_tick_sum_);
  sink.i64(used_since_.ns);
  sink.i64(first_tick_.ns);
  sink.u64(copied_);
  sink.u64(evicted_);
  return Status::ok();
}

Status Allocator::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported,
                  "allocator: state schema " + std::to_string(schema) + ", not 1");
  }
  for (SlotPool& pool : pools_) {
    TROUPE_TRY(pool.load(source));
  }
  if (const uint64_t rows = source.u64(); rows != rows_.size()) {
    return Status(Code::kFailedPrecondition, "allocator: snapshot of " + std::to_string(rows) +
                                                 " blocks, configured are " +
                                                 std::to_string(rows_.size()));
  }
  ids_ = IdPool(config_.capacity_blocks);
  refs_total_ = 0;
  idle_granules_ = 0;
  for (uint32_t block = 0; block < rows_.size(); ++block) {
    BlockRow& row = rows_[block];
    row.refs = source.u32();
    row.generation = source.u32();
    row.in_flight = static_cast<uint16_t>(source.u32());
    row.block_class = source.u8();
    const uint8_t flags = source.u8();
    row.indexed = (flags & 1) != 0;
    row.leaving = (flags & 2) != 0;
    row.quarantine = (flags & 4) != 0;
    for (size_t t = 0; t < kTierCount; ++t) {
      if (!places_[t].empty()) {
        places_[t][block].first = source.u32();
        places_[t][block].generation = source.u32();
      }
    }
    TROUPE_TRY(source.status());
    if (row.block_class >= config_.class_granules.size()) {
      return Status(Code::kCorrupt, "allocator: block class " + std::to_string(row.block_class));
    }
    if (row.refs != 0 || row.indexed || row.in_flight != 0) {
      ids_.take_exactly(block);
    }
    refs_total_ += row.refs;
    idle_granules_ += is_idle(block) ? granules_of(block) : 0;
  }
  for (Sequence& sequence : sequences_) {
    sequence.request = source.u64();
    sequence.block_class = source.u8();
    sequence.published = source.u32();
    sequence.told = source.u32();
    sequence.valid = source.u32();
    sequence.table = source.array<uint32_t>();
    for (const uint32_t block : sequence.table) {
      if (block >= rows_.size()) {
        return Status(Code::kCorrupt, "allocator: a table names block " + std::to_string(block));
      }
    }
  }
  for (bool& open : reclaim_open_) {
    open = source.u8() != 0;
  }
  next_id_hint_ = source.u32();
  next_slot_generation_ = source.u32();
  peak_used_ = source.u32();
  used_tick_sum_ = source.u64();
  used_since_.ns = source.i64();
  first_tick_.ns = source.i64();
  copied_ = source.u64();
  evicted_ = source.u64();
  TROUPE_TRY(source.status());
  return check();
}

}  // namespace troupe
