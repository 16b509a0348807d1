// Digest, invariants, save and load.
#include "actors/prefix_index/prefix_index.h"

#include <string>

namespace troupe {

Digest PrefixIndex::digest() const noexcept {
  Digest d = tree_.digest();
  rows_.digest(d);
  for (const auto& [key, request] : pending_) {
    d.add(key.make).add(key.key.w[0]).add(request);
  }
  d.add(batch_.step).add(batch_.rows.size()).add(batch_.news.size());
  return d.add(published_)
      .add(waits_)
      .add(folded_)
      .add(refused_)
      .add(stray_)
      .add(watched_ ? 1 : 0)
      .add(unread_)
      .add(skipped_)
      .add(stage_asked_)
      .add(stage_used_)
      .add(staged_.size());
}

Status PrefixIndex::check_quick() const {
  if (unexpected_.count != 0) {
    return Status(Code::kInternal, "prefix_index: unexpected messages " +
                                       std::to_string(unexpected_.count) + ", the last of kind " +
                                       std::to_string(static_cast<unsigned>(unexpected_.last)));
  }
  if (tree_.live_on(0) > tree_.live_blocks() || tree_.live_blocks() > config_.capacity_blocks ||
      waiting_ > rows_.size() || pending_.size() > rows_.size()) {
    return Status(Code::kInternal, "prefix_index: counts of blocks or rows are out of range");
  }
  return Status::ok();
}

/// One request's own facts: what it computes, loads and holds is registered.
Status PrefixIndex::check_row(uint64_t id, const Row& row) const {
  const auto bad = [id](const std::string& what) {
    return Status(Code::kInternal, "prefix_index: request " + std::to_string(id) + " " + what);
  };
  if (row.pending) {
    const auto found = pending_.find({row.make, row.domain, row.pending_key});
    if (found == pending_.end() || found->second != id) {
      return bad("computes a block that is not registered");
    }
  }
  for (const uint32_t block : row.loading) {
    const auto owner = loads_.find(block);
    if (owner == loads_.end() || owner->second != id) {
      return bad("loads block " + std::to_string(block) + ", which is not registered");
    }
  }
  if (row.anchor == kNoBlock) {
    return row.used == 0 ? Status::ok()
                         : bad("uses " + std::to_string(row.used) + " blocks but has no anchor");
  }
  const bool at_end = tree_.live(row.anchor) && tree_.on(row.anchor, 0) &&
                      tree_.depth(row.anchor) + 1 == row.used &&
                      tree_.make(row.anchor) == row.make && tree_.domain(row.anchor) == row.domain;
  return at_end ? Status::ok()
                : bad("has anchor " + std::to_string(row.anchor) + ", which is not its path's end");
}

/// Leases and blocks kept back are what the rows name, no more and no less.
Status PrefixIndex::check_holds() const {
  std::map<uint32_t, uint32_t> leases;
  std::map<uint32_t, uint32_t> kept_back;
  for (const auto& [id, row] : rows_) {
    for (const uint32_t block : row.kept_back) {
      ++kept_back[block];
    }
    for (const uint32_t block : {row.partial_source, row.anchor}) {
      if (block != kNoBlock) {
        ++leases[block];
      }
    }
  }
  if (kept_back.size() != kept_back_.size()) {
    return Status(Code::kInternal, "prefix_index: " + std::to_string(kept_back_.size()) +
                                       " blocks are kept back, rows name " +
                                       std::to_string(kept_back.size()));
  }
  for (const auto& [block, kept] : kept_back_) {
    if (tree_.live(block) || kept_back[block] != kept.rows) {
      return Status(Code::kInternal, "prefix_index: block " + std::to_string(block) +
                                         " is kept back for " + std::to_string(kept.rows) +
                                         " rows, that is not so");
    }
  }
  uint64_t total = 0;
  for (const auto& [block, count] : leases) {
    total += count;
    if (!tree_.live(block) || tree_.leases(block) != count) {
      return Status(Code::kInternal, "prefix_index: block " + std::to_string(block) + " has " +
                                         std::to_string(tree_.leases(block)) +
                                         " leases, its users hold " + std::to_string(count));
    }
  }
  return total == tree_.live_leases()
             ? Status::ok()
             : Status(Code::kInternal, "prefix_index: " + std::to_string(tree_.live_leases()) +
                                           " leases, users hold " + std::to_string(total));
}

Status PrefixIndex::check() const {
  TROUPE_TRY(check_quick());
  TROUPE_TRY(tree_.check());
  uint32_t waiting = 0;
  size_t pending = 0;
  size_t loads = 0;
  for (const auto& [id, row] : rows_) {
    TROUPE_TRY(check_row(id, row));
    waiting += row.waiting ? 1 : 0;
    pending += row.pending ? 1 : 0;
    loads += row.loading.size();
  }
  if (block_waiters_.size() + request_waiters_.size() != waiting) {
    return Status(Code::kInternal,
                  "prefix_index: " + std::to_string(waiting) + " rows wait, " +
                      std::to_string(block_waiters_.size() + request_waiters_.size()) +
                      " are listed by what they wait for");
  }
  if (waiting != waiting_ || pending != pending_.size() || loads != loads_.size()) {
    return Status(Code::kInternal, "prefix_index: " + std::to_string(waiting) + " rows wait, " +
                                       std::to_string(waiting_) + " counted; " +
                                       std::to_string(pending) + " compute, " +
                                       std::to_string(pending_.size()) + " registered; " +
                                       std::to_string(loads) + " loads, " +
                                       std::to_string(loads_.size()) + " registered");
  }
  return check_holds();
}

Status PrefixIndex::save(StateSink& sink) const {
  sink.u32(4);
  tree_.save(sink);
  rows_.save(sink);
  sink.u64(kept_back_.size());
  for (const auto& [block, kept] : kept_back_) {
    sink.u32(block);
    sink.u32(kept.rows);
    sink.u64(kept.leaves.size());
    for (const Leave& leave : kept.leaves) {
      sink.u8(leave.tier);
      sink.u8(static_cast<uint8_t>((leave.gone ? 1 : 0) | (leave.quarantine ? 2 : 0) |
                                   (leave.kept ? 4 : 0)));
    }
  }
  for (const uint64_t v : {published_, watched_ ? uint64_t{1} : 0, unread_, skipped_, waits_,
                           folded_, refused_, mismatched_, stray_, batch_.step, batch_.commits,
                           stage_asked_, stage_came_, stage_used_, stage_missed_}) {
    sink.u64(v);
  }
  sink.array(std::vector<uint32_t>(staged_.begin(), staged_.end()));
  sink.array(batch_.rows);
  sink.array(batch_.news);
  return Status::ok();
}

Status PrefixIndex::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 4) {
    return Status(Code::kUnsupported,
                  "prefix_index: state schema " + std::to_string(schema) + ", not 4");
  }
  TROUPE_TRY(tree_.load(source));
  TROUPE_TRY(rows_.load(source));
  kept_back_.clear();
  const uint64_t kept_blocks = source.u64();
  for (uint64_t i = 0; i < kept_blocks && source.status(); ++i) {
    const uint32_t block = source.u32();
    KeptBack& kept = kept_back_[block];
    kept.rows = source.u32();
    const uint64_t leaves = source.u64();
    for (uint64_t k = 0; k < leaves && source.status(); ++k) {
      const uint8_t tier = source.u8();
      const uint8_t flags = source.u8();
      kept.leaves.push_back({block, tier, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0});
    }
  }
  uint64_t watched = 0;
  for (uint64_t* v : {&published_, &watched, &unread_, &skipped_, &waits_, &folded_, &refused_,
                      &mismatched_, &stray_, &batch_.step, &batch_.commits,
                      &stage_asked_, &stage_came_, &stage_used_, &stage_missed_}) {
    *v = source.u64();
  }
  watched_ = watched != 0;
  const auto staged = source.array<uint32_t>();
  staged_ = std::set<uint32_t>(staged.begin(), staged.end());
  batch_.rows = source.array<RunIn>();
  batch_.news = source.array<NewIn>();
  TROUPE_TRY(source.status());
  pending_.clear();
  loads_.clear();
  waiting_ = 0;
  block_waiters_.clear();
  request_waiters_.clear();
  for (const auto& [id, row] : rows_) {
    if (row.block_class() >= config_.class_tokens.size()) {
      return Status(Code::kCorrupt, "prefix_index: request " + std::to_string(id) +
                                        " has block class " + std::to_string(row.block_class()));
    }
    if (row.waiting) {
      ++waiting_;
      if (row.waits_block != kNoBlock) {
        block_waiters_.emplace(row.waits_block, id);
      } else {
        request_waiters_.emplace(row.waits_request, id);
      }
    }
    if (row.pending) {
      pending_.emplace(PendingKey{row.make, row.domain, row.pending_key}, id);
    }
    for (const uint32_t block : row.loading) {
      loads_.emplace(block, id);
    }
  }
  return check();
}

}  // namespace troupe
