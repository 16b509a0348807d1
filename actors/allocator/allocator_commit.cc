// What a step filled is handed to the prefix index with its block ids; what ended gives its table
// back.
#include "actors/allocator/allocator.h"

#include <algorithm>

namespace troupe {

void Allocator::on_commit(wire::Commit::Reader commit, StepContext& cx) {
  // Ids are collected before any table is given back, so that a handle is not reused under the
  // frame.
  std::vector<uint32_t> sealed;
  commits_ = commit.getNumber();
  struct Range {
    uint32_t first = 0;
    uint32_t count = 0;
    uint32_t last_tokens = 0;
  };
  const auto rows = commit.getRows();
  std::vector<Range> ranges(rows.size());
  for (unsigned i = 0; i < ranges.size(); ++i) {
    const auto row = rows[i];
    if (row.getSequence() >= sequences_.size() ||
        sequences_[row.getSequence()].request != row.getRequest()) {
      continue;  // it never got a table; the row is the prefix index's business alone
    }
    Sequence& sequence = sequences_[row.getSequence()];
    const uint32_t block = tokens_of(sequence.block_class);
    const uint32_t valid =
        std::min<uint32_t>(row.getSealed(), static_cast<uint32_t>(sequence.table.size()) * block);
    const bool ends = row.getEnding() != wire::Ending::RUNNING;
    const bool partial = ends && valid % block != 0;
    uint32_t end = valid / block + (partial ? 1 : 0);
    const auto bad =
        std::find_if(sequence.table.begin() + std::min(sequence.published, end),
                     sequence.table.begin() + end, [&](uint32_t b) { return rows_[b].quarantine; });
    const auto good = static_cast<uint32_t>(bad - sequence.table.begin());
    if (good < end) {
      end = good;  // bytes known to be bad are no one else's to use
    }
    ranges[i].first = sequence.published;
    if (end > sequence.published) {
      ranges[i].count = end - sequence.published;
      ranges[i].last_tokens = end > valid / block ? valid % block : block;
      for (uint32_t b = sequence.published; b < end; ++b) {
        sealed.push_back(sequence.table[b]);
        name(sequence.table[b]);
      }
      sequence.published = end;
    }
    if (ends) {
      release_table(sequence);
    }
  }
  const size_t words = commit.totalSize().wordCount + data_words(sealed.size() * 4);
  cx.out.send(Kind::PUBLISH, words, [&](wire::Message::Builder m) {
    auto publish = m.initPublish();
    publish.setStep(commit.getStep());
    publish.setNumber(commit.getNumber());
    publish.setRows(commit.getRows());
    publish.setTokens(commit.getTokens());
    publish.setKeys(commit.getKeys());
    publish.setReplies(commit.getReplies());
    publish.setBlocks(data_of(sealed));
    auto list = publish.getRows();
    for (unsigned i = 0; i < ranges.size(); ++i) {
      auto row = list[i];
      row.setFirstBlock(ranges[i].first);
      row.setBlocks(ranges[i].count);
      row.setLastTokens(ranges[i].last_tokens);
    }
  });
}

/// The block is told to the index. Was its slot to go with its last table (a purge, a demotion that
/// passed by a fork), the index has a new say in it.
void Allocator::name(uint32_t block) {
  set_indexed(block, true);
  rows_[block].named = commits_;
  rows_[block].leaving = false;
}

void Allocator::release_table(Sequence& sequence) {
  // Tail first: within one sequence the deepest block is the first to be reused.
  for (size_t i = sequence.table.size(); i > 0; --i) {
    unref(sequence.table[i - 1]);
  }
  sequence = Sequence{};
}

void Allocator::on_folded(wire::Folded::Reader folded) {
  for (const auto fold : folded.getFolds()) {
    const uint32_t duplicate = fold.getDuplicate();
    const uint32_t canonical = fold.getCanonical();
    if (duplicate >= rows_.size() || (canonical != kNoBlock && canonical >= rows_.size())) {
      ++stray_;
      continue;
    }
    if (ids_.is_free(duplicate) || rows_[duplicate].born >= folded.getCommit()) {
      continue;  // two forks named it, and the first fold was all that there was to do
    }
    if (canonical == kNoBlock) {
      if (rows_[duplicate].named > folded.getCommit()) {
        continue;  // another fork has named it since: what the index says to that counts
      }
      set_indexed(duplicate, false);  // not accepted: private to the tables that it stands in
      free_if_unused(duplicate);
      continue;
    }
    if (!has(canonical, Tier::kDevice) && has(duplicate, Tier::kDevice)) {
      // The canonical block lay lower only: the fresh copy becomes its device slot.
      const bool was_canonical = is_idle(canonical);
      const bool was_duplicate = is_idle(duplicate);
      place(canonical, Tier::kDevice) = place(duplicate, Tier::kDevice);
      place(duplicate, Tier::kDevice) = Place{};
      note_idle(canonical, was_canonical);
      note_idle(duplicate, was_duplicate);
    }
    set_indexed(duplicate, false);
    replace_in_tables(fold.getIndex(), duplicate, canonical);
    free_if_unused(duplicate);
  }
}

/// Forks share the leading part of a table, so the duplicate stands at one place in all that have
/// it.
void Allocator::replace_in_tables(uint32_t index, uint32_t duplicate, uint32_t canonical) {
  for (size_t i = 0; i < sequences_.size() && rows_[duplicate].refs > 0; ++i) {
    Sequence& sequence = sequences_[i];
    if (index < sequence.table.size() && sequence.table[index] == duplicate) {
      sequence.table[index] = canonical;
      sequence.told = std::min(sequence.told, index);
      ref(canonical);
      unref(duplicate);
    }
  }
}

}  // namespace troupe
