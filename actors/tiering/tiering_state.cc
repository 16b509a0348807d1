// Digest, invariants, save and load of tiering.
#include "actors/tiering/tiering.h"

#include <algorithm>

namespace troupe {

Digest Tiering::digest() const noexcept {
  Digest d;
  for (const auto& [id, batch] : batches_) {
    d.add(id).add(batch.tier).add(batch.asked_tier).add(batch.open).add(batch.items.size());
  }
  for (const auto& [id, copy] : copying_) {
    d.add(id).add(copy.batch).add(copy.item);
  }
  for (const uint64_t rate : rate_) {
    d.add(rate);
  }
  for (const Breaker& breaker : breakers_) {
    d.add(breaker.errors).add_signed(breaker.shut_until).add(breaker.trial ? 1 : 0);
  }
  d.add(demoted_).add(dropped_).add(loaded_).add(recomputed_).add(lost_);
  return d.add(bucket_).add(staged_);
}

Status Tiering::check() const {
  uint64_t open = 0;
  uint64_t unplaced = 0;
  for (const auto& [id, batch] : batches_) {
    open += batch.open;
    unplaced += batch.asked.size();
  }
  if (open != copying_.size() + unplaced) {
    return Status(Code::kInternal, "tiering: " + std::to_string(open) + " items are open, " +
                                       std::to_string(copying_.size()) + " transfers are known");
  }
  return unexpected_.count + stray_ == 0
             ? Status::ok()
             : Status(Code::kInternal,
                      "tiering: unexpected messages " + std::to_string(unexpected_.count + stray_));
}

Status Tiering::save(StateSink& sink) const {
  sink.u32(4);
  sink.u64(batches_.size());
  for (const auto& [id, batch] : batches_) {
    sink.u64(id);
    sink.u8(batch.tier);
    sink.u8(batch.asked_tier);
    sink.u64(batch.question);
    sink.u8(static_cast<uint8_t>((batch.reclaim ? 1 : 0) | (batch.stage ? 2 : 0) |
                                 (batch.ahead ? 4 : 0)));
    sink.array(batch.asked);
    sink.u32(batch.open);
    sink.u64(batch.items.size());
    for (const Item& item : batch.items) {
      sink.u32(item.block);
      sink.u8(item.from);
      sink.u8(item.to);
      sink.u32(static_cast<uint32_t>(item.outcome));
      sink.u8(item.on_disk ? 1 : 0);
      for (const uint64_t word : item.key.w) {
        sink.u64(word);
      }
    }
  }
  sink.u64(copying_.size());
  for (const auto& [id, copy] : copying_) {
    sink.u64(id);
    sink.u64(copy.batch);
    sink.u32(copy.item);
  }
  for (int t = 0; t < kTierCount; ++t) {
    sink.u64(rate_[static_cast<size_t>(t)]);
    sink.u64(moved_bytes_[static_cast<size_t>(t)]);
    const Breaker& breaker = breakers_[static_cast<size_t>(t)];
    sink.u32(breaker.errors);
    sink.i64(breaker.window_begin);
    sink.i64(breaker.shut_until);
    sink.u8(breaker.trial ? 1 : 0);
    sink.i64(probe_at_[static_cast<size_t>(t)]);
  }
  for (const uint64_t v : {next_batch_, next_transfer_, next_question_, demoted_, dropped_, loaded_,
                           recomputed_, lost_, errors_, shuts_, unwritten_, over_budget_,
                           unhurried_, staged_, bucket_}) {
    sink.u64(v);
  }
  sink.i64(bucket_at_);
  return Status::ok();
}

Status Tiering::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 4) {
    return Status(Code::kUnsupported,
                  "tiering: state schema " + std::to_string(schema) + ", not 4");
  }
  batches_.clear();
  copying_.clear();
  depth_ = {};
  const uint64_t batches = source.u64();
  for (uint64_t i = 0; i < batches && source.status(); ++i) {
    Batch& batch = batches_[source.u64()];
    batch.tier = source.u8();
    batch.asked_tier = source.u8();
    batch.question = source.u64();
    const uint8_t flags = source.u8();
    batch.reclaim = (flags & 1) != 0;
    batch.stage = (flags & 2) != 0;
    batch.ahead = (flags & 4) != 0;
    batch.asked = source.array<uint32_t>();
    batch.open = source.u32();
    const uint64_t items = source.u64();
    for (uint64_t k = 0; k < items && source.status(); ++k) {
      Item item;
      item.block = source.u32();
      item.from = source.u8();
      item.to = source.u8();
      item.outcome = static_cast<wire::Outcome>(source.u32());
      item.on_disk = source.u8() != 0;
      for (uint64_t& word : item.key.w) {
        word = source.u64();
      }
      batch.items.push_back(item);
    }
  }
  const uint64_t copies = source.u64();
  for (uint64_t i = 0; i < copies && source.status(); ++i) {
    const uint64_t id = source.u64();
    Copying copy;
    copy.batch = source.u64();
    copy.item = source.u32();
    copying_.emplace(id, copy);
    const auto batch = batches_.find(copy.batch);
    if (batch == batches_.end() || copy.item >= batch->second.items.size()) {
      return Status(Code::kCorrupt, "tiering: transfer " + std::to_string(id) + " of no batch");
    }
    const Item& item = batch->second.items[copy.item];
    ++depth_[std::max<uint8_t>(item.from, item.to) % kTierCount];
  }
  for (int t = 0; t < kTierCount; ++t) {
    rate_[static_cast<size_t>(t)] = source.u64();
    moved_bytes_[static_cast<size_t>(t)] = source.u64();
    Breaker& breaker = breakers_[static_cast<size_t>(t)];
    breaker.errors = source.u32();
    breaker.window_begin = source.i64();
    breaker.shut_until = source.i64();
    breaker.trial = source.u8() != 0;
    probe_at_[static_cast<size_t>(t)] = source.i64();
  }
  for (uint64_t* v : {&next_batch_, &next_transfer_, &next_question_, &demoted_, &dropped_,
                      &loaded_, &recomputed_, &lost_, &errors_, &shuts_, &unwritten_, &over_budget_,
                      &unhurried_, &staged_, &bucket_}) {
    *v = source.u64();
  }
  bucket_at_ = source.i64();
  return source.status();
}

}  // namespace troupe
