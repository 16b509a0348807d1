// What tiering has to do with the disk in particular: the day's budget of writes, what is worth
// writing, and what is brought to host memory before its request's step.
#include "actors/tiering/tiering.h"

#include <algorithm>

namespace troupe {

/// Refilled by time passed, up to one hour's share at once.
bool Tiering::take_write(Tick now) {
  if (config_.disk_bytes_per_day == 0) {
    return true;
  }
  constexpr uint64_t kDaySeconds = 86400;
  constexpr uint64_t kNanos = 1000000000;
  using Wide = unsigned __int128;
  const uint64_t most = std::max(config_.disk_bytes_per_day / 24, config_.block_bytes);
  if (bucket_at_ == INT64_MIN) {
    bucket_ = most;
    bucket_at_ = now.ns;
  }
  const auto passed = static_cast<uint64_t>(std::max<int64_t>(0, now.ns - bucket_at_));
  const Wide more = Wide{config_.disk_bytes_per_day} * passed / (Wide{kDaySeconds} * kNanos);
  if (more > 0) {  // the time of these bytes is over, what is left of it goes on counting
    bucket_ = static_cast<uint64_t>(std::min<Wide>(Wide{bucket_} + more, most));
    bucket_at_ += static_cast<int64_t>(more * kDaySeconds * kNanos / config_.disk_bytes_per_day);
  }
  if (bucket_ < config_.block_bytes) {
    ++over_budget_;
    return false;
  }
  bucket_ -= config_.block_bytes;
  return true;
}

void Tiering::on_stage(wire::Stage::Reader stage, StepContext& cx) {
  constexpr auto kHost = static_cast<uint8_t>(Tier::kHost);
  constexpr auto kDisk = static_cast<uint8_t>(Tier::kDisk);
  const auto blocks = stage.getBlocks();
  const uint64_t id = next_batch_++;
  Batch& batch = batches_[id];
  batch.tier = kDisk;
  batch.stage = true;
  const std::vector<uint8_t> tiers(blocks.size(), kDisk);
  const uint32_t tokens =
      blocks.size() == 0 ? 0 : config_.class_tokens[blocks[0].getBlockClass()];
  // What is staged misses the step at hand and enters with the next one.
  const uint64_t free_tokens = 2 * config_.step_free_tokens;
  uint32_t load = config_.enabled[kHost] ? blocks_to_load(tokens, tiers, free_tokens, cx.now) : 0;
  if (load == 0 && !is_shut(kDisk, cx.now) && cx.now.ns >= probe_at_[kDisk]) {
    // Nobody's step waits for these, so they show whether the tier has become fast again.
    load = blocks.size();
    probe_at_[kDisk] = cx.now.ns + config_.breaker_pause.ns;
  }
  std::vector<uint32_t> wanted;
  for (const auto block : blocks) {
    Item item{block.getBlock(), kDisk, kHost, wire::Outcome::FAILED};
    if (batch.items.size() < load) {
      const auto key = span_of<BlockKey>(block.getKey());
      item.key = key.empty() ? BlockKey{} : key[0];
      item.outcome = wire::Outcome::UNKNOWN;
      wanted.push_back(static_cast<uint32_t>(batch.items.size()));
      ++batch.open;
    }
    batch.items.push_back(item);
  }
  recomputed_ += blocks.size() - load;
  if (wanted.empty()) {
    settle(id, cx);
  } else {
    ask_places(batch, std::move(wanted), kHost, cx);
  }
}

/// Whether the block is worth a place in `to`; notes whether it may go on to the disk from there.
bool Tiering::wants_place(wire::Leaving::Reader leaving, const Batch& batch, Item& item, Tick now) {
  // Another copy, below or on the device, makes this one free to drop. (Were one on the device
  // written below all the same, no step could take its place there until the write has ended.)
  if (leaving.getAlsoIn() != 0 || item.to >= kTierCount) {
    return false;
  }
  policy::LeavingBlock block{leaving.getBlock(),
                             leaving.getDepth(),
                             leaving.getTokens(),
                             leaving.getUses(),
                             leaving.getTenant(),
                             leaving.getAlsoIn(),
                             static_cast<uint8_t>(Tier::kDisk)};
  // A sequence that is swapped out will come back: its blocks are not asked about.
  const bool ahead = batch.ahead && batch.tier == static_cast<uint8_t>(Tier::kHost);
  const bool in_time = !config_.drop_for_step || !batch.reclaim || ahead;
  item.on_disk = !batch.reclaim || (in_time && policy_->demote(block));
  block.to = item.to;
  if (item.to != static_cast<uint8_t>(Tier::kDisk)) {
    return !batch.reclaim || policy_->demote(block);
  }
  const bool wanted = item.on_disk && take_write(now);
  unwritten_ += wanted ? 0 : 1;
  unhurried_ += in_time ? 0 : 1;
  return wanted;
}

}  // namespace troupe
