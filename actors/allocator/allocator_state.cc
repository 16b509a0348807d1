// Save and load of the allocator, a step or a placement that waits for room included.
#include "actors/allocator/allocator.h"

#include <string>

namespace troupe {

Status Allocator::save(StateSink& sink) const {
  sink.u32(6);
  for (const SlotPool& pool : pools_) {
    pool.save(sink);
  }
  sink.u64(rows_.size());
  for (uint32_t block = 0; block < rows_.size(); ++block) {
    const BlockRow& row = rows_[block];
    sink.u32(row.refs);
    sink.u64(row.born);
    sink.u64(row.named);
    sink.u32(row.in_flight);
    sink.u8(row.block_class);
    sink.u8(static_cast<uint8_t>((row.indexed ? 1 : 0) | (row.leaving ? 2 : 0) |
                                 (row.quarantine ? 4 : 0) | (row.demoting ? 8 : 0)));
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
  sink.u64(pending_.step);
  sink.array(pending_.rows);
  sink.array(pending_.news);
  sink.array(pending_.blocks);
  sink.array(pending_.keys);
  sink.u64(pending_.last_free);
  sink.u64(pending_.missing);
  sink.u64(places_waiting_.size());
  for (const PendingPlace& place : places_waiting_) {
    sink.u8(place.from);
    sink.u8(place.to);
    sink.u8(place.asked ? 1 : 0);
    sink.array(place.blocks);
  }
  for (size_t t = 0; t < kTierCount; ++t) {
    sink.u8(static_cast<uint8_t>((reclaim_open_[t] ? 1 : 0) | (reclaim_ahead_[t] ? 2 : 0)));
  }
  for (const uint32_t v : {next_id_hint_, next_slot_generation_, peak_used_}) {
    sink.u32(v);
  }
  for (const uint64_t v : {commits_, used_tick_sum_, copied_, evicted_, stray_}) {
    sink.u64(v);
  }
  sink.i64(used_since_.ns);
  sink.i64(first_tick_.ns);
  return Status::ok();
}

namespace {
Status corrupt(const std::string& what) {
  return Status(Code::kCorrupt, "allocator: " + what);
}
}  // namespace

Status Allocator::load_blocks(StateSource& source) {
  if (const uint64_t rows = source.u64(); rows != rows_.size()) {
    return Status(Code::kFailedPrecondition, "allocator: snapshot of " + std::to_string(rows) +
                                                 " blocks, configured are " +
                                                 std::to_string(rows_.size()));
  }
  ids_ = IdPool(config_.capacity_blocks);
  refs_total_ = 0;
  idle_granules_ = 0;
  demoting_granules_ = 0;
  for (uint32_t block = 0; block < rows_.size(); ++block) {
    BlockRow& row = rows_[block];
    row.refs = source.u32();
    row.born = source.u64();
    row.named = source.u64();
    row.in_flight = static_cast<uint16_t>(source.u32());
    row.block_class = source.u8();
    const uint8_t flags = source.u8();
    row.indexed = (flags & 1) != 0;
    row.leaving = (flags & 2) != 0;
    row.quarantine = (flags & 4) != 0;
    row.demoting = (flags & 8) != 0;
    for (size_t t = 0; t < kTierCount; ++t) {
      if (!places_[t].empty()) {
        places_[t][block].first = source.u32();
        places_[t][block].generation = source.u32();
      }
    }
    TROUPE_TRY(source.status());
    if (row.block_class >= config_.class_granules.size()) {
      return corrupt("block " + std::to_string(block) + " has class " +
                     std::to_string(row.block_class));
    }
    if (row.refs != 0 || row.indexed || row.in_flight != 0) {
      ids_.take_exactly(block);
    }
    refs_total_ += row.refs;
    idle_granules_ += is_idle(block) ? granules_of(block) : 0;
    demoting_granules_ += row.demoting ? granules_of(block) : 0;
  }
  return Status::ok();
}

Status Allocator::load_waiting(StateSource& source) {
  const auto known = [&](const std::vector<uint32_t>& blocks) {
    for (const uint32_t block : blocks) {
      if (block >= rows_.size()) {
        return corrupt("a list names block " + std::to_string(block) + " of " +
                       std::to_string(rows_.size()));
      }
    }
    return Status::ok();
  };
  for (Sequence& sequence : sequences_) {
    sequence.request = source.u64();
    sequence.block_class = source.u8();
    sequence.published = source.u32();
    sequence.told = source.u32();
    sequence.valid = source.u32();
    sequence.table = source.array<uint32_t>();
    TROUPE_TRY(known(sequence.table));
    if (sequence.block_class >= config_.class_tokens.size() ||
        sequence.told > sequence.table.size() || sequence.published > sequence.table.size()) {
      return corrupt("request " + std::to_string(sequence.request) + " has a table of " +
                     std::to_string(sequence.table.size()) + " blocks and more published or told");
    }
  }
  pending_.step = source.u64();
  pending_.rows = source.array<RunRow>();
  pending_.news = source.array<NewRow>();
  pending_.blocks = source.array<uint32_t>();
  pending_.keys = source.array<BlockKey>();
  pending_.last_free = source.u64();
  pending_.missing = source.u64();
  TROUPE_TRY(known(pending_.blocks));
  for (const RunRow& row : pending_.rows) {
    if (row.sequence >= sequences_.size()) {
      return corrupt("a waiting row names sequence " + std::to_string(row.sequence));
    }
  }
  for (const NewRow& row : pending_.news) {
    if (row.sequence >= sequences_.size() || row.block_class >= config_.class_tokens.size() ||
        static_cast<uint64_t>(row.offset) + row.hits > pending_.blocks.size() ||
        row.on_device > row.hits ||
        uint64_t{row.key_offset} + row.hits - row.on_device > pending_.keys.size() ||
        (row.partial_source != kNoBlock && row.partial_source >= rows_.size())) {
      return corrupt("the waiting row of request " + std::to_string(row.request) +
                     " is out of range");
    }
  }
  places_waiting_.clear();
  const uint64_t places = source.u64();
  for (uint64_t i = 0; i < places && source.status(); ++i) {
    PendingPlace place;
    place.from = source.u8();
    place.to = source.u8();
    place.asked = source.u8() != 0;
    place.blocks = source.array<uint32_t>();
    TROUPE_TRY(known(place.blocks));
    if (place.from >= kTierCount || place.to >= kTierCount) {
      return corrupt("a placement waits for tier " + std::to_string(place.to));
    }
    places_waiting_.push_back(std::move(place));
  }
  return source.status();
}

Status Allocator::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 6) {
    return Status(Code::kUnsupported,
                  "allocator: state schema " + std::to_string(schema) + ", not 6");
  }
  for (SlotPool& pool : pools_) {
    TROUPE_TRY(pool.load(source));
  }
  TROUPE_TRY(load_blocks(source));
  TROUPE_TRY(load_waiting(source));
  for (size_t t = 0; t < kTierCount; ++t) {
    const uint8_t flags = source.u8();
    reclaim_open_[t] = (flags & 1) != 0;
    reclaim_ahead_[t] = (flags & 2) != 0;
  }
  for (uint32_t* v : {&next_id_hint_, &next_slot_generation_, &peak_used_}) {
    *v = source.u32();
  }
  for (uint64_t* v : {&commits_, &used_tick_sum_, &copied_, &evicted_, &stray_}) {
    *v = source.u64();
  }
  used_since_.ns = source.i64();
  first_tick_.ns = source.i64();
  TROUPE_TRY(source.status());
  return check();
}

}  // namespace troupe
