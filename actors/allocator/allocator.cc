// Blocks and slots: handing out, counting references, giving back.
#include "actors/allocator/allocator.h"

#include <algorithm>

namespace troupe {

Allocator::Allocator(AllocatorConfig config)
    : config_(std::move(config)),
      rows_(config_.capacity_blocks),
      ids_(config_.capacity_blocks),
      sequences_(config_.max_sequences) {
  ahead_.resize(config_.class_granules.size());
  for (size_t t = 0; t < kTierCount; ++t) {
    pools_[t] = SlotPool(config_.granules[t]);
    if (config_.granules[t] > 0) {
      places_[t].resize(config_.capacity_blocks);
    }
  }
}

void Allocator::step(const Envelope& in, StepContext& cx) noexcept {
  // Integral of used memory over time, for the mean; ticks are cut to microseconds to stay in
  // range.
  if (first_tick_.ns == 0) {
    first_tick_ = cx.now;
    used_since_ = cx.now;
  }
  if (cx.now > used_since_) {
    used_tick_sum_ += static_cast<uint64_t>((cx.now - used_since_).ns >> 10) * pools_[0].used();
    used_since_ = cx.now;
  }
  switch (in.message.which()) {
    case Kind::RESERVE:
      on_reserve(in.message.getReserve(), cx);
      break;
    case Kind::COMMIT:
      on_commit(in.message.getCommit(), cx);
      break;
    case Kind::FOLDED:
      on_folded(in.message.getFolded());
      break;
    case Kind::PLACE:
      on_place(in.message.getPlace(), cx);
      break;
    case Kind::RELEASED:
      on_released(in.message.getReleased(), cx);
      break;
    case Kind::STATUS_ASK:
      answer_status(in.message.getStatusAsk().getControl(), cx);
      break;
    default:
      unexpected_.note(in.message.which());
  }
  peak_used_ = std::max(peak_used_, pools_[0].used());
}

uint32_t Allocator::new_block(uint8_t block_class, uint32_t after) {
  const uint32_t hint = after == kNoBlock ? next_id_hint_ : after + 1;
  const uint32_t block = ids_.take(hint);
  if (block == IdPool::kNone) {
    return kNoBlock;
  }
  next_id_hint_ = block + 1;
  BlockRow& row = rows_[block];
  row.born = commits_;
  row.named = 0;
  row.block_class = block_class;
  return block;
}

bool Allocator::take_slot(uint32_t block, Tier tier) {
  const bool was = is_idle(block);
  std::vector<uint32_t>& ahead = ahead_[rows_[block].block_class];
  uint32_t first = SlotPool::kNone;
  if (tier == Tier::kDevice && !ahead.empty()) {
    first = ahead.back();
    ahead.pop_back();
  } else {
    first = pools_[static_cast<size_t>(tier)].take(granules_of(block));
  }
  if (first == SlotPool::kNone) {
    return false;
  }
  place(block, tier) = {first, next_slot_generation_++};
  note_idle(block, was);
  return true;
}

void Allocator::free_slot(uint32_t block, Tier tier, bool quarantine) {
  if (!has(block, tier)) {
    return;
  }
  const bool was = is_idle(block);
  SlotPool& pool = pools_[static_cast<size_t>(tier)];
  const uint32_t first = place(block, tier).first;
  if (quarantine) {
    pool.quarantine(first, granules_of(block));
  } else {
    pool.give(first, granules_of(block));
  }
  place(block, tier) = Place{};
  note_idle(block, was);
}

void Allocator::unref(uint32_t block) {
  TROUPE_ASSERT(rows_[block].refs > 0);
  const bool was = is_idle(block);
  BlockRow& row = rows_[block];
  --row.refs;
  --refs_total_;
  note_idle(block, was);
  if (row.refs == 0 && row.leaving) {
    free_slot(block, Tier::kDevice, row.quarantine);
    row.leaving = false;
    row.quarantine = false;
  }
  free_if_unused(block);
}

void Allocator::set_indexed(uint32_t block, bool indexed) {
  const bool was = is_idle(block);
  rows_[block].indexed = indexed;
  note_idle(block, was);
}

void Allocator::free_if_unused(uint32_t block) {
  const BlockRow& row = rows_[block];
  if (row.refs != 0 || row.indexed || row.in_flight != 0 || ids_.is_free(block)) {
    return;
  }
  set_demoting(block, false);
  for (size_t t = 0; t < kTierCount; ++t) {
    free_slot(block, static_cast<Tier>(t), false);
  }
  ids_.give(block);
}

void Allocator::set_slot(wire::SlotRef::Builder out, uint32_t block, Tier tier) const {
  const Place& p = place(block, tier);
  out.setFirst(p.first);
  out.setCount(granules_of(block));
  out.setGeneration(p.generation);
  out.setTier(static_cast<uint8_t>(tier));
}

bool Allocator::has_lower_tier() const noexcept {
  return config_.granules[1] + config_.granules[2] + config_.granules[3] > 0;
}

size_t Allocator::table_bytes() const noexcept {
  size_t bytes = rows_.size() * sizeof(BlockRow) + rows_.size() / 8;
  for (const auto& tier : places_) {
    bytes += tier.size() * sizeof(Place);
  }
  return bytes;
}

}  // namespace troupe
