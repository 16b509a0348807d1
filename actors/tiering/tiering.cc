#include "actors/tiering/tiering.h"

#include "runtime/core/gauges.h"

#include <algorithm>

namespace troupe {

Tiering::Tiering(TieringConfig config, std::unique_ptr<policy::TieringPolicy> policy)
    : config_(std::move(config)), policy_(std::move(policy)), rate_(config_.bytes_per_s) {}

void Tiering::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::LOAD:
      on_load(in.message.getLoad(), cx);
      break;
    case Kind::STAGE:
      on_stage(in.message.getStage(), cx);
      break;
    case Kind::UNLINKED:
      on_unlinked(in.message.getUnlinked(), cx);
      break;
    case Kind::PLACED:
      on_placed(in.message.getPlaced(), cx);
      break;
    case Kind::TRANSFER_DONE:
      on_transfer_done(in, cx);
      break;
    case Kind::STATUS_ASK:
      answer_status(in.message.getStatusAsk().getControl(), cx);
      break;
    default:
      unexpected_.note(in.message.which());
  }
}

namespace {

/// Room was asked for, and a cache may lose: a block that can't be written below is dropped, since
/// kept where it is it would be named again and again while its requester waits for the room. Bytes
/// that do not verify at their source are lost, and their slot with them.
wire::Outcome outcome_of_failure(wire::TransferResult::Reader result, bool stage) {
  const bool source_lies = result.getStatus() == static_cast<uint16_t>(Code::kCorrupt) &&
                           result.getFrom() != static_cast<uint8_t>(Tier::kDevice);
  if (source_lies) {
    return wire::Outcome::LOST;
  }
  return stage ? wire::Outcome::FAILED : wire::Outcome::DROPPED;
}

}  // namespace

uint8_t Tiering::below(uint8_t tier) const noexcept {
  uint8_t next = static_cast<uint8_t>(tier + 1);
  while (next < kTierCount && !config_.enabled[next]) {
    ++next;
  }
  return next;
}

uint8_t Tiering::usable_below(uint8_t tier, Tick now) const noexcept {
  uint8_t next = below(tier);
  while (next < kTierCount && is_shut(next, now)) {
    next = below(next);
  }
  return next;
}

uint32_t Tiering::blocks_to_load(uint32_t tokens_a_block, std::span<const uint8_t> tiers,
                                 uint64_t free_tokens, Tick now) {
  // Loads are a leading run: it ends before the first block in a tier that is shut.
  const auto end = std::find_if(tiers.begin(), tiers.end(), [&](uint8_t tier) {
    return tier >= kTierCount || is_shut(tier, now);
  });
  const auto lower = static_cast<uint32_t>(end - tiers.begin());
  using Wide = unsigned __int128;
  constexpr Wide kSecond = 1000000000;
  policy::LoadQuestion question;
  question.bytes = config_.block_bytes;
  question.blocks = lower;
  question.tokens = static_cast<uint32_t>(
      std::max<uint64_t>(uint64_t{lower} * tokens_a_block, free_tokens) - free_tokens);
  // One rate for the run: its bytes through the time that each block's own tier takes.
  Wide nanos = 0;
  bool known = lower > 0;
  for (uint32_t i = 0; i < lower; ++i) {
    const uint64_t rate = rate_[tiers[i]];
    known = known && rate != 0;
    nanos += rate == 0 ? 0 : Wide{config_.block_bytes} * kSecond / rate;
    question.tier_latency_ns = std::max(question.tier_latency_ns, config_.latency_ns[tiers[i]]);
  }
  if (known && nanos > 0) {
    question.tier_bytes_per_s =
        static_cast<uint64_t>(Wide{config_.block_bytes} * lower * kSecond / nanos);
  }
  question.queue_depth = lower > 0 ? depth_[tiers[0]] : 0;
  question.prefill_tokens_per_s = config_.prefill_tokens_per_s;
  return std::min(lower, policy_->load(question));
}

void Tiering::on_load(wire::Step::Reader step, StepContext& cx) {
  const auto blocks = span_of<uint32_t>(step.getBlocks());
  const auto tiers = span_of<uint8_t>(step.getTiers());
  std::vector<Item> lowered;
  cx.out.send(Kind::RESERVE, step.totalSize().wordCount, [&](wire::Message::Builder m) {
    m.setReserve(step);
    for (auto row : m.getReserve().getNews()) {
      const uint32_t lower = row.getHitBlocks() - row.getDeviceBlocks();
      if (lower == 0) {
        continue;
      }
      TROUPE_ASSERT(size_t{row.getKeyOffset()} + lower <= tiers.size());
      const uint32_t load =
          blocks_to_load(config_.class_tokens[row.getBlockClass()],
                         tiers.subspan(row.getKeyOffset(), lower), config_.step_free_tokens,
                         cx.now);
      loaded_ += load;
      recomputed_ += lower - load;
      if (load == lower) {
        continue;
      }
      for (uint32_t i = row.getDeviceBlocks() + load; i < row.getHitBlocks(); ++i) {
        lowered.push_back({blocks[row.getOffset() + i], below(0), 0, wire::Outcome::FAILED});
      }
      const uint32_t tokens_a_block = config_.class_tokens[row.getBlockClass()];
      row.setHitBlocks(row.getDeviceBlocks() + load);
      row.setHitTokens(row.getHitBlocks() * tokens_a_block);
      row.setLastPartial(0);
      row.setPartialSource(kNoBlock);
      row.setPartialTokens(0);
      const uint32_t left =
          std::max(1U, row.getTotal() - std::min(row.getHitTokens(), row.getTotal()));
      row.setTokens(std::min(row.getBudget(), left));
    }
  });
  if (!lowered.empty()) {
    cx.out.send(Kind::SETTLE, lowered.size() * 3, [&](wire::Message::Builder m) {
      auto items = m.initSettle().initItems(static_cast<unsigned>(lowered.size()));
      for (unsigned i = 0; i < lowered.size(); ++i) {
        items[i].setBlock(lowered[i].block);
        items[i].setFrom(lowered[i].from);
        items[i].setTo(lowered[i].to);
        items[i].setOutcome(lowered[i].outcome);
      }
    });
  }
}

void Tiering::on_unlinked(wire::Unlinked::Reader unlinked, StepContext& cx) {
  const uint64_t id = next_batch_++;
  Batch& batch = batches_[id];
  batch.tier = unlinked.getTier();
  batch.reclaim = unlinked.getReclaim();
  batch.ahead = unlinked.getAhead();
  const uint8_t to = usable_below(batch.tier, cx.now);
  std::vector<uint32_t> wanted;
  std::vector<Item> free;
  for (const auto leaving : unlinked.getBlocks()) {
    Item item{leaving.getBlock(), batch.tier, to, wire::Outcome::DROPPED};
    if (wants_place(leaving, batch, item, cx.now)) {
      const auto key = span_of<BlockKey>(leaving.getKey());
      item.key = key.empty() ? BlockKey{} : key[0];
      item.outcome = wire::Outcome::UNKNOWN;
      wanted.push_back(static_cast<uint32_t>(batch.items.size()));
      ++batch.open;
    } else {
      ++dropped_;
      if (batch.tier != 0) {
        free.push_back(item);  // gone at once, whatever the others' copies take
        continue;
      }
    }
    batch.items.push_back(item);
  }
  if (!free.empty() && !wanted.empty()) {
    const uint64_t now = next_batch_++;
    Batch& gone = batches_[now];
    gone.tier = batch.tier;
    gone.items = std::move(free);
    settle(now, cx);
  } else if (!free.empty()) {
    batch.items = std::move(free);
  }
  if (wanted.empty()) {
    settle(id, cx);
  } else {
    ask_places(batch, std::move(wanted), to, cx);
  }
}

void Tiering::ask_places(Batch& batch, std::vector<uint32_t> items, uint8_t to, StepContext& cx) {
  std::vector<uint32_t> blocks;
  for (const uint32_t i : items) {
    batch.items[i].to = to;
    blocks.push_back(batch.items[i].block);
  }
  batch.asked = std::move(items);
  batch.asked_tier = to;
  batch.question = next_question_++;
  cx.out.send(Kind::PLACE, data_words(blocks.size() * 4), [&](wire::Message::Builder m) {
    auto place = m.initPlace();
    place.setFrom(batch.tier);
    place.setTo(to);
    place.setBlocks(data_of(blocks));
  });
}

void Tiering::on_placed(wire::Placed::Reader placed, StepContext& cx) {
  auto found = batches_.end();
  for (auto at = batches_.begin(); at != batches_.end(); ++at) {
    const Batch& b = at->second;
    const bool same = b.tier == placed.getFrom() && b.asked_tier == placed.getTo();
    if (same && (found == batches_.end() || b.question < found->second.question)) {
      found = at;
    }
  }
  const auto copies = placed.getCopies();
  if (found == batches_.end() || copies.size() != found->second.asked.size()) {
    ++stray_;
    return;
  }
  const uint64_t id = found->first;
  Batch& batch = found->second;
  const std::vector<uint32_t> asked = std::move(batch.asked);
  batch.asked.clear();
  batch.asked_tier = kTierCount;
  std::vector<std::pair<unsigned, uint64_t>> going;  // index in copies, transfer id
  std::vector<uint32_t> lower;                       // no room there: one tier further down
  const uint8_t next = usable_below(placed.getTo(), cx.now);
  for (unsigned i = 0; i < asked.size(); ++i) {
    if (copies[i].getTarget().getCount() != 0) {
      const uint64_t transfer = next_transfer_++;
      copying_[transfer] = {id, asked[i]};
      ++depth_[std::max(placed.getFrom(), placed.getTo())];
      going.emplace_back(i, transfer);
    } else {
      on_unplaced(batch, asked[i], next, cx.now, lower);
    }
  }
  if (!going.empty()) {
    send_transfer(placed, going, cx);
  }
  if (!lower.empty()) {
    ask_places(batch, std::move(lower), next, cx);
  }
  if (batch.open == 0) {
    settle(id, cx);
  }
}

/// No room in the tier that was asked: one further down, or none.
void Tiering::on_unplaced(Batch& batch, uint32_t index, uint8_t next, Tick now,
                          std::vector<uint32_t>& lower) {
  Item& item = batch.items[index];
  const bool is_disk = next == static_cast<uint8_t>(Tier::kDisk);
  if (!batch.stage && next < kTierCount && (!is_disk || (item.on_disk && take_write(now)))) {
    lower.push_back(index);
    return;
  }
  item.outcome = batch.stage ? wire::Outcome::FAILED : wire::Outcome::DROPPED;
  --batch.open;
  dropped_ += batch.stage ? 0 : 1;
}

void Tiering::send_transfer(wire::Placed::Reader placed,
                            const std::vector<std::pair<unsigned, uint64_t>>& going,
                            StepContext& cx) {
  const bool in_memory = placed.getFrom() == static_cast<uint8_t>(Tier::kDevice) &&
                         placed.getTo() == static_cast<uint8_t>(Tier::kHost);
  cx.out.send(
      Kind::TRANSFER, going.size() * 17,
      [&](wire::Message::Builder m) {
        const auto copies = placed.getCopies();
        auto list = m.initTransfer().initCopies(static_cast<unsigned>(going.size()));
        for (unsigned i = 0; i < going.size(); ++i) {
          list.setWithCaveats(i, copies[going[i].first]);
          list[i].setId(going[i].second);
          const Copying& copying = copying_.at(going[i].second);
          const Item& item = batches_.at(copying.batch).items[copying.item];
          list[i].setKey(data_of(std::span(&item.key, 1)));
        }
      },
      in_memory ? 0 : 1);
}

void Tiering::measure(wire::TransferResult::Reader result) {
  const uint8_t from = result.getFrom();
  if (from >= kTierCount || result.getNanos() == 0 || result.getBytes() == 0) {
    return;
  }
  moved_bytes_[from] += result.getBytes();
  if (result.getTo() >= from) {
    return;  // the rate that matters is the one of loads, not of what is written further down
  }
  const uint64_t rate =
      static_cast<uint64_t>(result.getBytes()) * 1000000000ULL / result.getNanos();
  // Moving average over about eight transfers, in integers so that every machine decides alike.
  rate_[from] = rate_[from] == 0 ? rate : (rate_[from] * 7 + rate) / 8;
}

/// Bytes that do not verify are a slot's matter; what the device itself could not do counts here.
void Tiering::note_health(wire::TransferResult::Reader result, Tick now) {
  const uint8_t tier = std::max(result.getFrom(), result.getTo());
  if (tier == 0 || tier >= kTierCount) {
    return;
  }
  Breaker& breaker = breakers_[tier];
  const auto code = static_cast<Code>(result.getStatus());
  if (code == Code::kOk && breaker.trial && !is_shut(tier, now)) {
    breaker = Breaker{};
  }
  if (code != Code::kIo && code != Code::kDeadline && code != Code::kUnavailable &&
      code != Code::kNoCapacity) {
    return;
  }
  ++errors_;
  if (is_shut(tier, now)) {
    return;  // sent before
  }
  if (now.ns - breaker.window_begin > config_.breaker_window.ns) {
    breaker.window_begin = now.ns;
    breaker.errors = 0;
  }
  if (++breaker.errors >= config_.breaker_errors || breaker.trial) {
    ++shuts_;
    breaker.errors = 0;
    breaker.shut_until = now.ns + config_.breaker_pause.ns;
    breaker.trial = true;
  }
}

void Tiering::on_transfer_done(const Envelope& in, StepContext& cx) {
  std::vector<Item> loads;  // device_stream reports loads; they belong to no batch
  std::vector<uint64_t> done;
  for (const auto result : in.message.getTransferDone().getResults()) {
    measure(result);
    note_health(result, cx.now);
    const bool ok = result.getStatus() == 0;
    const auto found = copying_.find(result.getId());
    if (result.getTo() == static_cast<uint8_t>(Tier::kDevice)) {
      lost_ += ok ? 0 : 1;
      loads.push_back({result.getBlock(), result.getFrom(), result.getTo(),
                       ok ? wire::Outcome::COPIED : wire::Outcome::LOST});
      continue;
    }
    if (found == copying_.end()) {
      ++stray_;
      continue;
    }
    Batch& batch = batches_.at(found->second.batch);
    Item& item = batch.items[found->second.item];
    const auto done_well = batch.stage ? wire::Outcome::COPIED : wire::Outcome::MOVED;
    item.outcome = ok ? done_well : outcome_of_failure(result, batch.stage);
    (batch.stage ? staged_ : demoted_) += ok ? 1 : 0;
    lost_ += ok ? 0 : 1;
    if (--batch.open == 0) {
      done.push_back(found->second.batch);
    }
    --depth_[std::max(item.from, item.to)];
    copying_.erase(found);
  }
  if (!loads.empty()) {
    const uint64_t id = next_batch_++;
    batches_[id].items = std::move(loads);
    settle(id, cx);
  }
  for (const uint64_t id : done) {
    settle(id, cx);
  }
}

void Tiering::settle(uint64_t id, StepContext& cx) {
  const Batch& batch = batches_.at(id);
  if (!batch.items.empty() || batch.reclaim) {
    cx.out.send(Kind::SETTLE, batch.items.size() * 3, [&](wire::Message::Builder m) {
      auto out = m.initSettle();
      out.setTier(batch.tier);
      out.setReclaim(batch.reclaim);
      auto items = out.initItems(static_cast<unsigned>(batch.items.size()));
      for (unsigned i = 0; i < batch.items.size(); ++i) {
        items[i].setBlock(batch.items[i].block);
        items[i].setFrom(batch.items[i].from);
        items[i].setTo(batch.items[i].to);
        items[i].setOutcome(batch.items[i].outcome);
      }
    });
  }
  batches_.erase(id);
}

void Tiering::answer_status(uint64_t control, StepContext& cx) {
  const Gauge gauges[] = {{"tiering.demoted", demoted_},
                          {"tiering.dropped", dropped_},
                          {"tiering.loaded", loaded_},
                          {"tiering.recomputed", recomputed_},
                          {"tiering.lost", lost_},
                          {"tiering.errors", errors_},
                          {"tiering.shut", shuts_},
                          {"tiering.unwritten", unwritten_},
                          {"tiering.over_budget", over_budget_},
                          {"tiering.unhurried", unhurried_},
                          {"tiering.staged", staged_},
                          {"tiering.copying", copying_.size()},
                          {"tiering.unexpected", unexpected_.count + stray_}};
  send_gauges(cx, control, gauges);
}

}  // namespace troupe
