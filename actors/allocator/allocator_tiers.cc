// Slots of the lower tiers, what comes back from the prefix index, and the status answer.
#include "actors/allocator/allocator.h"
#include "runtime/core/gauges.h"

#include <algorithm>

namespace troupe {

void Allocator::on_place(wire::Place::Reader place, StepContext& cx) {
  PendingPlace pending;
  pending.from = place.getFrom();
  pending.to = place.getTo();
  TROUPE_ASSERT(pending.to < kTierCount && config_.granules[pending.to] > 0);
  const auto blocks = span_of<uint32_t>(place.getBlocks());
  pending.blocks.assign(blocks.begin(), blocks.end());
  for (const uint32_t block : pending.blocks) {
    if (pending.from == 0 && block < rows_.size() && !ids_.is_free(block)) {
      set_demoting(block, true);
    }
  }
  places_waiting_.push_back(std::move(pending));
  try_places(place.getTo(), cx);
  refill_host(cx);
}

void Allocator::try_places(uint8_t tier, StepContext& cx) {
  // What refills the reserve may take its time: nobody waits for that, and goes by what is free.
  while (!reclaim_open_[tier] || reclaim_ahead_[tier]) {
    const auto found = std::find_if(places_waiting_.begin(), places_waiting_.end(),
                                    [&](const PendingPlace& p) { return p.to == tier; });
    if (found == places_waiting_.end()) {
      return;
    }
    PendingPlace& pending = *found;
    uint64_t need = 0;
    for (const uint32_t block : pending.blocks) {
      need += granules_of(block);
    }
    const uint64_t free = pools_[tier].free();
    if (need > free && !pending.asked && !reclaim_open_[tier]) {
      pending.asked = true;
      ask_room(tier, need - free, false, cx);
      return;
    }
    // After one reclaim, what fits goes and the rest is told that there is no room.
    std::vector<bool> placed;
    for (const uint32_t block : pending.blocks) {
      const bool fits =
          !has(block, static_cast<Tier>(tier)) && take_slot(block, static_cast<Tier>(tier));
      if (fits) {
        const bool was = is_idle(block);
        ++rows_[block].in_flight;
        note_idle(block, was);
      }
      placed.push_back(fits);
    }
    cx.out.send(Kind::PLACED, pending.blocks.size() * 12, [&](wire::Message::Builder m) {
      auto out = m.initPlaced();
      out.setFrom(pending.from);
      out.setTo(pending.to);
      auto copies = out.initCopies(static_cast<unsigned>(pending.blocks.size()));
      for (unsigned i = 0; i < pending.blocks.size(); ++i) {
        const uint32_t block = pending.blocks[i];
        copies[i].setBlock(block);
        set_slot(copies[i].initSource(), block, static_cast<Tier>(pending.from));
        if (placed[i]) {
          set_slot(copies[i].initTarget(), block, static_cast<Tier>(tier));
        }
      }
    });
    places_waiting_.erase(found);
  }
}

void Allocator::refill_host(StepContext& cx) {
  constexpr auto kHost = static_cast<uint8_t>(Tier::kHost);
  const uint64_t free = pools_[kHost].free();
  if (free < config_.host_reserve_low && !reclaim_open_[kHost]) {
    ask_room(kHost, config_.host_reserve_high - free, true, cx);
  }
}

void Allocator::on_released(wire::Released::Reader released, StepContext& cx) {
  const uint64_t demoting = demoting_granules_;
  for (const auto item : released.getItems()) {
    const uint32_t block = item.getBlock();
    if (block >= rows_.size() || item.getTier() >= kTierCount || ids_.is_free(block)) {
      ++stray_;
      continue;
    }
    BlockRow& row = rows_[block];
    const bool was = is_idle(block);
    if (row.in_flight > 0) {
      --row.in_flight;  // an item ends the one operation that a moving block can have
    }
    note_idle(block, was);
    set_demoting(block, false);
    const auto tier = static_cast<Tier>(item.getTier());
    if (row.named > released.getCommit() && tier == Tier::kDevice && !item.getKept()) {
      continue;  // a fork has published it again, on top of what the index knew then
    }
    if (!item.getKept() && has(block, tier)) {
      if (tier == Tier::kDevice && row.refs > 0) {
        // Tables still use it (a purge, a load that failed): it goes with the last of them.
        row.leaving = true;
        row.quarantine = item.getQuarantine();
      } else {
        evicted_ += tier == Tier::kDevice && row.indexed ? 1 : 0;
        free_slot(block, tier, item.getQuarantine());
      }
    }
    if (item.getGone() && row.named <= released.getCommit()) {
      set_indexed(block, false);
    }
    free_if_unused(block);
  }
  if (released.getReclaim()) {
    const uint8_t tier = released.getTier();
    if (tier >= kTierCount || !reclaim_open_[tier]) {
      ++stray_;
      return;
    }
    reclaim_open_[tier] = false;
    if (tier == 0) {
      try_step(cx);
      return;
    }
    try_places(tier, cx);
  }
  if (demoting_granules_ < demoting) {
    try_step(cx);  // it may have waited for these
  }
}

void Allocator::answer_status(uint64_t control, StepContext& cx) {
  const uint64_t ticks = static_cast<uint64_t>((used_since_ - first_tick_).ns >> 10);
  const Gauge gauges[] = {
      {"allocator.device.granules", pools_[0].granules()},
      {"allocator.device.free", pools_[0].free()},
      {"allocator.device.idle", idle_granules_},
      {"allocator.device.demoting", demoting_granules_},
      {"allocator.device.peak_used", peak_used_},
      {"allocator.device.mean_used", ticks == 0 ? pools_[0].used() : used_tick_sum_ / ticks},
      {"allocator.host.free", pools_[1].free()},
      {"allocator.disk.free", pools_[2].free()},
      {"allocator.quarantined",
       pools_[0].quarantined() + pools_[1].quarantined() + pools_[2].quarantined()},
      {"allocator.handles.free", ids_.free()},
      {"allocator.table_entries", refs_total_},
      {"allocator.copied", copied_},
      {"allocator.evicted", evicted_},
      {"allocator.table_bytes", table_bytes()},
      {"allocator.unexpected", unexpected_.count + stray_}};
  send_gauges(cx, control, gauges);
}

}  // namespace troupe
