// A reserved step: tables are built and grown, and the run goes to the device stream.
#include "actors/allocator/allocator.h"

#include <algorithm>

namespace troupe {

void Allocator::grow(const RunRow& row) {
  Sequence& sequence = sequences_[row.sequence];
  const uint32_t block_tokens = tokens_of(sequence.block_class);
  const uint32_t tail = row.before / block_tokens;
  if (row.before % block_tokens != 0 && tail < sequence.table.size()) {
    const uint32_t old = sequence.table[tail];
    if (rows_[old].refs > 1 || rows_[old].indexed) {
      const uint32_t copy = new_block(sequence.block_class, old);
      TROUPE_ASSERT(copy != kNoBlock && take_slot(copy, Tier::kDevice));
      ref(copy);
      cows_.push_back({copy, 0, old, Tier::kDevice});
      sequence.table[tail] = copy;
      sequence.published = std::min(sequence.published, tail);
      sequence.told = std::min(sequence.told, tail);
      unref(old);  // indexed or shared: its bytes stay until the copy is done
      ++copied_;
    }
  }
  const uint32_t wanted = (row.before + row.tokens + block_tokens - 1) / block_tokens;
  while (sequence.table.size() < wanted) {
    const uint32_t after = sequence.table.empty() ? kNoBlock : sequence.table.back();
    const uint32_t block = new_block(sequence.block_class, after);
    TROUPE_ASSERT(block != kNoBlock && take_slot(block, Tier::kDevice));
    ref(block);
    sequence.table.push_back(block);
  }
}

void Allocator::enter(const NewRow& row) {
  Sequence& sequence = sequences_[row.sequence];
  const uint32_t block_tokens = tokens_of(row.block_class);
  sequence.request = row.request;
  sequence.block_class = row.block_class;
  sequence.published = row.hits;
  sequence.told = 0;
  sequence.table.assign(pending_.blocks.begin() + row.offset,
                        pending_.blocks.begin() + row.offset + row.hits);  // referenced on arrival
  for (uint32_t i = row.on_device; i < row.hits; ++i) {
    const uint32_t block = sequence.table[i];
    Tier from = Tier::kHost;
    while (!has(block, from)) {
      from = static_cast<Tier>(static_cast<int>(from) + 1);
      TROUPE_ASSERT(static_cast<int>(from) < kTierCount);  // the index knows where a block lies
    }
    if (has(block, Tier::kDevice)) {
      rows_[block].leaving =
          false;  // a slot that another table has not given up yet is loaded anew
    } else {
      TROUPE_ASSERT(take_slot(block, Tier::kDevice));
    }
    ++rows_[block].in_flight;
    loads_.push_back(
        {block, 0, kNoBlock, from, pending_.keys[row.key_offset + (i - row.on_device)]});
  }
  uint32_t cached = row.hit_tokens + row.partial_tokens;
  uint32_t source = row.partial_source;
  if (forks(row)) {
    // A fork shares the parent's table as far as both have the same tokens and the bytes are valid.
    const Sequence& parent = sequences_[row.parent];
    const uint32_t common = std::min({row.fork_tokens, parent.valid, row.total});
    if (common > cached) {
      cached = common;
      for (uint32_t i = row.hits; i < common / block_tokens; ++i) {
        sequence.table.push_back(parent.table[i]);
        ref(parent.table[i]);
      }
      source = common % block_tokens == 0 ? kNoBlock : parent.table[common / block_tokens];
    }
  }
  const auto tail = static_cast<uint32_t>(sequence.table.size());
  const uint32_t wanted = (row.total + block_tokens - 1) / block_tokens;
  while (sequence.table.size() < wanted) {
    const uint32_t after = sequence.table.empty() ? kNoBlock : sequence.table.back();
    const uint32_t block = new_block(row.block_class, after);
    TROUPE_ASSERT(block != kNoBlock && take_slot(block, Tier::kDevice));
    ref(block);
    sequence.table.push_back(block);
  }
  if (source != kNoBlock && tail < sequence.table.size()) {
    cows_.push_back({sequence.table[tail], 0, source, Tier::kDevice});
    ++copied_;
  } else if (source != kNoBlock) {
    cached = std::min(cached, tail * block_tokens);
  }
  sequence.valid = std::min(cached, row.total - 1);  // one token is always computed
}

void Allocator::run_step(StepContext& cx) {
  loads_.clear();
  cows_.clear();
  uint32_t index = 0;
  const auto stamp = [&](size_t loads, size_t cows) {
    for (size_t i = loads; i < loads_.size(); ++i) {
      loads_[i].row = index;
    }
    for (size_t i = cows; i < cows_.size(); ++i) {
      cows_[i].row = index;
    }
    ++index;
  };
  for (const RunRow& row : pending_.rows) {
    const size_t cows = cows_.size();
    grow(row);
    stamp(loads_.size(), cows);
  }
  for (const NewRow& row : pending_.news) {
    if (row.in) {
      const size_t loads = loads_.size();
      const size_t cows = cows_.size();
      enter(row);
      stamp(loads, cows);
    }
  }
  give_back_ahead();  // a load found its slot there already
  send_run(cx);
  for (const NewRow& row : pending_.news) {
    if (row.in && row.partial_source != kNoBlock) {
      unref(row.partial_source);  // the copy is on its way, before anything that reuses the slot
    }
  }
  pending_ = PendingStep{};
  const uint32_t reserve = config_.free_reserve;
  if (reserve > 0 && has_lower_tier() && pools_[0].free() < reserve && !reclaim_open_[0] &&
      idle_granules_ > 0) {
    ask_room(0, std::min<uint64_t>(reserve - pools_[0].free(), idle_granules_), true, cx);
  }
}

void Allocator::fill_copy(wire::Copy::Builder copy, const CopyRow& row) const {
  copy.setId(row.row);
  copy.setRow(row.row);
  copy.setBlock(row.block);
  set_slot(copy.initSource(), row.source == kNoBlock ? row.block : row.source, row.from);
  set_slot(copy.initTarget(), row.block, Tier::kDevice);
  if (row.source == kNoBlock) {
    copy.setKey(data_of(std::span(&row.key, 1)));
  }
}

void Allocator::send_run(StepContext& cx) {
  unsigned rows = static_cast<unsigned>(pending_.rows.size());
  size_t slots = 0;
  for (const RunRow& row : pending_.rows) {
    slots += sequences_[row.sequence].table.size() - sequences_[row.sequence].told;
  }
  for (const NewRow& row : pending_.news) {
    if (row.in) {
      ++rows;
      slots += sequences_[row.sequence].table.size();
    }
  }
  const size_t copies = loads_.size() + cows_.size();
  const size_t words = rows * 8UL + copies * 17 + data_words(slots * 4) * 2;
  cx.out.send(Kind::RUN, words, [&](wire::Message::Builder m) {
    auto run = m.initRun();
    run.setStep(pending_.step);
    auto out = run.initRows(rows);
    auto loads = run.initLoads(static_cast<unsigned>(loads_.size()));
    auto cows = run.initCows(static_cast<unsigned>(cows_.size()));
    const auto firsts = span_of<uint32_t>(run.initSlots(static_cast<unsigned>(slots * 4)));
    const auto ids = span_of<uint32_t>(run.initBlocks(static_cast<unsigned>(slots * 4)));
    for (unsigned i = 0; i < loads_.size(); ++i) {
      fill_copy(loads[i], loads_[i]);
    }
    for (unsigned i = 0; i < cows_.size(); ++i) {
      fill_copy(cows[i], cows_[i]);
    }
    uint32_t offset = 0;
    unsigned at = 0;
    const auto tell = [&](wire::PlanRow::Builder row, Sequence& sequence) {
      row.setFirstBlock(sequence.told);
      row.setOffset(offset);
      row.setCount(static_cast<uint32_t>(sequence.table.size()) - sequence.told);
      for (size_t i = sequence.told; i < sequence.table.size(); ++i, ++offset) {
        firsts[offset] = place(sequence.table[i], Tier::kDevice).first;
        ids[offset] = sequence.table[i];
      }
      sequence.told = static_cast<uint32_t>(sequence.table.size());
    };
    for (const RunRow& r : pending_.rows) {
      auto row = out[at++];
      row.setRequest(r.request);
      row.setSequence(r.sequence);
      row.setBefore(r.before);
      row.setTokens(r.tokens);
      tell(row, sequences_[r.sequence]);
    }
    for (const NewRow& r : pending_.news) {
      if (!r.in) {
        continue;
      }
      Sequence& sequence = sequences_[r.sequence];
      auto row = out[at++];
      row.setRequest(r.request);
      row.setSequence(r.sequence);
      row.setBefore(sequence.valid);
      row.setTokens(std::min(r.tokens, r.total - sequence.valid));
      row.setHitBlocks(r.hits);
      row.setPartialTokens(sequence.valid > r.hit_tokens ? sequence.valid - r.hit_tokens : 0);
      row.setEntered(true);
      tell(row, sequence);
    }
  });
}

}  // namespace troupe
