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
  const auto keys = span_of<BlockKey>(step.getKeys());
  pending_.keys.assign(keys.begin(), keys.end());
  for (const auto row : step.getNews()) {
    NewRow r{row.getRequest(),       row.getSequence(),  row.getTotal(),
             row.getParent(),        row.getHitBlocks(), row.getHitTokens(),
             row.getDeviceBlocks(),  row.getOffset(),    row.getPartialSource(),
             row.getPartialTokens(), row.getTokens(),    row.getLastPartial(),
             row.getForkTokens(),    row.getBlockClass()};
    r.key_offset = row.getKeyOffset();
    TROUPE_ASSERT(r.sequence < sequences_.size() && sequences_[r.sequence].request == 0 &&
                  r.block_class < config_.class_tokens.size() &&
                  static_cast<size_t>(r.offset) + r.hits <= blocks.size() &&
                  r.on_device <= r.hits &&
                  size_t{r.key_offset} + r.hits - r.on_device <= keys.size());
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
    if (r.partial_source != kNoBlock) {
      ref(r.partial_source);
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
  return blocks;
}

Allocator::Need Allocator::needed(const NewRow& row) const noexcept {
  const uint32_t block = tokens_of(row.block_class);
  uint32_t shared = row.hits;
  if (forks(row)) {
    const Sequence& parent = sequences_[row.parent];
    const uint32_t common = std::min({row.fork_tokens, parent.valid, row.total});
    shared = common > row.hit_tokens + row.partial_tokens ? common / block : row.hits;
  }
  const uint32_t wanted = (row.total + block - 1) / block;
  Need need;
  need.handles = wanted - std::min(shared, wanted);
  need.slots = need.handles + row.hits - row.on_device;
  return need;
}

bool Allocator::forks(const NewRow& row) const noexcept {
  return row.parent != kNoSequence && row.parent < sequences_.size() &&
         sequences_[row.parent].request != 0 &&
         sequences_[row.parent].block_class == row.block_class;
}

/// Takes the slots of the whole step, so that it is known that they can be had: with blocks of
/// several sizes enough granules may be free and still no run long enough. All or none.
bool Allocator::take_ahead() {
  std::vector<uint32_t> slots(config_.class_granules.size(), 0);
  for (const RunRow& row : pending_.rows) {
    slots[sequences_[row.sequence].block_class] += growth(row);
  }
  for (const NewRow& row : pending_.news) {
    slots[row.block_class] += row.in ? needed(row).slots : 0;
  }
  for (size_t c = 0; c < slots.size(); ++c) {
    for (; slots[c] > 0; --slots[c]) {
      const uint32_t first = pools_[0].take(config_.class_granules[c]);
      if (first == SlotPool::kNone) {
        give_back_ahead();
        return false;
      }
      ahead_[c].push_back(first);
    }
    std::reverse(ahead_[c].begin(), ahead_[c].end());
  }
  return true;
}

void Allocator::give_back_ahead() {
  for (size_t c = 0; c < ahead_.size(); ++c) {
    for (; !ahead_[c].empty(); ahead_[c].pop_back()) {
      pools_[0].give(ahead_[c].back(), config_.class_granules[c]);
    }
  }
}

void Allocator::try_step(StepContext& cx) {
  if (pending_.step == 0) {
    return;
  }
  const uint64_t free = pools_[0].free();
  uint64_t running = 0;
  uint64_t handles = 0;
  for (const RunRow& row : pending_.rows) {
    const uint32_t blocks = growth(row);
    handles += blocks;
    running += static_cast<uint64_t>(blocks) *
               config_.class_granules[sequences_[row.sequence].block_class];
  }
  // What eviction could free on top; an estimate, since leases are the prefix index's to know.
  const bool may_ask = pending_.last_free == UINT64_MAX || free > pending_.last_free;
  const uint64_t room = free + (may_ask ? idle_granules_ : 0);
  // What is on its way down is waited for: to preempt one more request for it would free more than
  // is needed, and so on until none is left.
  if (running > room + demoting_granules_ && !reclaim_open_[0]) {
    cancel_step(running - std::min(free, running), cx);
    return;
  }
  uint64_t need = running;
  bool ended = false;
  for (NewRow& row : pending_.news) {
    if (!row.in) {
      continue;
    }
    const Need more = needed(row);
    const uint64_t granules =
        static_cast<uint64_t>(more.slots) * config_.class_granules[row.block_class];
    // The first that does not fit ends the admission of those behind it, so that a large request is
    // not starved; what stands before it still has its room when this is looked at again.
    if (!reclaim_open_[0] && (ended || need + granules > room)) {
      ended = true;
      pending_.missing = std::max<uint64_t>(
          {pending_.missing, 1, need + granules - std::min(free, need + granules)});
      drop_new(row);
      continue;
    }
    need += granules;
    handles += more.handles;
  }
  const bool taken = need <= free && handles <= ids_.free() && (need == 0 || take_ahead());
  if (!taken && reclaim_open_[0]) {
    return;  // room is being made already; what comes of it is seen then
  }
  if (need > free) {
    if (may_ask && idle_granules_ > 0) {
      pending_.last_free = free;
      ask_room(0, need - free, false, cx);
    }
    return;  // else the demotions under way come back here
  }
  if (!taken) {
    make_room_for_runs(may_ask, cx);
    return;
  }
  const bool dropped = std::any_of(pending_.news.begin(), pending_.news.end(),
                                   [](const NewRow& row) { return !row.in; });
  if (dropped) {
    send_short(pending_.missing, false, cx);
  }
  run_step(cx);
}

/// Granules enough, but scattered: one more block is reclaimed, or the last new row left out.
void Allocator::make_room_for_runs(bool may_ask, StepContext& cx) {
  if (may_ask && idle_granules_ > 0) {
    pending_.last_free = pools_[0].free();
    ask_room(0, 1, false, cx);
    return;
  }
  if (demoting_granules_ > 0) {
    return;  // these come back here
  }
  const auto last = std::find_if(pending_.news.rbegin(), pending_.news.rend(),
                                 [](const NewRow& row) { return row.in; });
  if (last == pending_.news.rend()) {
    cancel_step(1, cx);
    return;
  }
  pending_.missing = std::max<uint64_t>(pending_.missing, 1);
  drop_new(*last);
  try_step(cx);
}

void Allocator::drop_new(NewRow& row) {
  for (uint32_t i = row.hits; i > 0; --i) {
    unref(pending_.blocks[row.offset + i - 1]);
  }
  if (row.partial_source != kNoBlock) {
    unref(row.partial_source);
  }
  row.in = 0;
}

void Allocator::cancel_step(uint64_t missing, StepContext& cx) {
  for (NewRow& row : pending_.news) {
    if (row.in) {
      drop_new(row);
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
  reclaim_ahead_[tier] = ahead;
  cx.out.send(Kind::RECLAIM, 0, [&](wire::Message::Builder m) {
    auto reclaim = m.initReclaim();
    reclaim.setTier(tier);
    reclaim.setBlocks(static_cast<uint32_t>((granules + largest - 1) / largest));
    reclaim.setAhead(ahead);
  });
}

}  // namespace troupe
