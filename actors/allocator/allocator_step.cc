// Reservation: all device slots of the running rows or none, each new row wholly or not at all, in
// their order. Short of room, idle blocks are reclaimed first; the step waits here meanwhile.
#include "actors/allocator/allocator.h"

#include <algorithm>

namespace troupe {

void Allocator::on_reserve(wire::Step::Reader step, StepContext& cx) {
  if (pending_.step != 0) {
    ++stray_;  // one step is in flight at a time
    return;
  }
  pending_ = PendingStep{};
  pending_.step = step.getStep();
  pending_.last_free = UINT64_MAX;
  for (const auto row : step.getRows()) {
    if (row.getSequence() >= sequences_.size() ||
        sequences_[row.getSequence()].request != row.getRequest()) {
      ++stray_;
      continue;
    }
    pending_.rows.push_back(
        {row.getRequest(), row.getSequence(), row.getBefore(), row.getTokens()});
    sequences_[row.getSequence()].valid = row.getBefore();
  }
  const auto blocks = span_of<uint32_t>(step.getBlocks());
  pending_.blocks.assign(blocks.begin(), blocks.end());
  for (const auto row : step.getNews()) {
    NewRow r{row.getRequest(),       row.getSequence(),  row.getTotal(),
             row.getParent(),        row.getHitBlocks(), row.getHitTokens(),
             row.getDeviceBlocks(),  row.getOffset(),    row.getPartialSource(),
             row.getPartialTokens(), row.getTokens(),    row.getLastPartial(),
             row.getForkTokens(),    row.getBlockClass()};
    TROUPE_ASSERT(r.sequence < sequences_.size() && sequences_[r.sequence].request == 0 &&
                  r.block_class < config_.class_tokens.size() &&
                  static_cast<size_t>(r.offset) + r.hits <= blocks.size());
    if (r.last_partial > 0 && r.total > r.hit_tokens) {
      // The sequence goes on inside its last hit block, which others share: it is copied on write.
      r.partial_source = blocks[r.offset + r.hits - 1];
      r.partial_tokens = r.last_partial;
      r.hit_tokens -= r.last_partial;
      --r.hits;
      r.on_device = std::min(r.on_device, r.hits);
    }
    // From here on they are in use: no reclaim for this step takes them.
    for (uint32_t i = 0; i < r.hits; ++i) {
      ref(pending_.blocks[r.offset + i]);
    }
    pending_.news.push_back(r);
  }
  try_step(cx);
}

uint32_t Allocator::growth(const RunRow& row) const noexcept {
  const Sequence& sequence = sequences_[row.sequence];
  const uint32_t block = tokens_of(sequence.block_class);
  const uint32_t wanted = (row.before + row.tokens + block - 1) / block;
  const auto have = static_cast<uint32_t>(sequence.table.size());
  uint32_t blocks = wanted > have ? wanted - have : 0;
  if (row.before % block != 0 && row.before / block < have) {
    const BlockRow& tail = rows_[sequence.table[row.before / block]];
    blocks += tail.refs > 1 || tail.indexed ? 1 : 0;
  }
  return blocks * config_.class_granules[sequence.block_class];
}

uint32_t Allocator::needed(const NewRow& row) const noexcept {
  const uint32_t block = tokens_of(row.block_class);
  uint32_t shared = row.hits;
  if (row.parent != kNoSequence && row.parent < sequences_.size()) {
    const Sequence& parent = sequences_[row.parent];
    shared = std::max(shared, std::min(row.fork_tokens, parent.valid) / block);
  }
  const uint32_t fresh =
      (row.total + block - 1) / block - std::min(shared, (row.total + block - 1) / block);
  return (fresh + row.hits - row.on_device) * config_.class_granules[row.block_class];
}

void Allocator::try_step(StepContext& cx) {
  if (pending_.step == 0 || reclaim_open_[0]) {
    return;
  }
  const uint64_t free = pools_[0].free();
  uint64_t running = 0;
  for (const RunRow& row : pending_.rows) {
    running += growth(row);
  }
  // What eviction could free on top; an estimate, since leases are the prefix index's to know.
  const bool may_ask = pending_.last_free == UINT64_MAX || free > pending_.last_free;
  const uint64_t room = free + (may_ask ? idle_granules_ : 0);
  if (running > room) {
    cancel_step(running - free, cx);
    return;
  }
  uint64_t need = running;
  uint64_t missing = 0;
  for (NewRow& row : pending_.news) {
    const uint64_t more = row.in ? needed(row) : 0;
    if (row.in && (missing > 0 || need + more > room)) {
      // The first that does not fit ends the admission, so that a large request is not starved.
      missing = std::max<uint64_t>(missing, need + more - std::min(free, need + more));
      drop_new(row);
      row.in = false;
      continue;
    }
    need += more;
  }
  if (need > free) {
    pending_.last_free = free;
    ask_room(0, need - free, false, cx);
    return;
  }
  const bool dropped = std::any_of(pending_.news.begin(), pending_.news.end(),
                                   [](const NewRow& row) { return !row.in; });
  if (dropped) {
    send_short(missing, false, cx);
  }
  run_step(cx);
}

void Allocator::drop_new(NewRow& row) {
  for (uint32_t i = row.hits; i > 0; --i) {
    unref(pending_.blocks[row.offset + i - 1]);
  }
}

void Allocator::cancel_step(uint64_t missing, StepContext& cx) {
  for (NewRow& row : pending_.news) {
    if (row.in) {
      drop_new(row);
      row.in = false;
    }
  }
  send_short(missing, true, cx);
  pending_ = PendingStep{};
}

void Allocator::send_short(uint64_t missing, bool cancelled, StepContext& cx) {
  std::vector<uint64_t> dropped;
  for (const NewRow& row : pending_.news) {
    if (!row.in) {
      dropped.push_back(row.request);
    }
  }
  cx.out.send(Kind::SHORT, data_words(dropped.size() * 8), [&](wire::Message::Builder m) {
    auto out = m.initShort();
    out.setStep(pending_.step);
    out.setMissing(static_cast<uint32_t>(missing));
    out.setDropped(data_of(dropped));
    out.setCancelled(cancelled);
  });
}

void Allocator::ask_room(uint8_t tier, uint64_t granules, bool ahead, StepContext& cx) {
  // Blocks of the smallest class free the least: asked for in these, too little is freed at worst,
  // and the question is repeated.
  const uint32_t largest =
      *std::max_element(config_.class_granules.begin(), config_.class_granules.end());
  reclaim_open_[tier] = true;
  cx.out.send(Kind::RECLAIM, 0, [&](wire::Message::Builder m) {
    auto reclaim = m.initReclaim();
    reclaim.setTier(tier);
    reclaim.setBlocks(static_cast<uint32_t>((granules + largest - 1) / largest));
    reclaim.setAhead(ahead);
  });
}

}  // namespace troupe
