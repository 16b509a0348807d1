// What a step filled becomes reusable; what ended gives its leases back; replies go out behind it.
#include "actors/prefix_index/prefix_index.h"

#include <algorithm>

namespace troupe {

using prefix::Motion;

namespace {
bool leaves_for_good(wire::Ending ending) noexcept {
  return ending == wire::Ending::FINISHED || ending == wire::Ending::CANCELLED ||
         ending == wire::Ending::EXPIRED;
}
}  // namespace

void PrefixIndex::on_publish(wire::Commit::Reader commit, StepContext& cx) {
  published_ = std::max(published_, commit.getNumber());
  auto tokens = span_of<uint32_t>(commit.getTokens());
  auto keys = span_of<BlockKey>(commit.getKeys());
  auto blocks = span_of<uint32_t>(commit.getBlocks());
  for (const auto in : commit.getRows()) {
    const size_t t = std::min<size_t>(in.getNewTokens(), tokens.size());
    const size_t k = std::min<size_t>(in.getNewKeys(), keys.size());
    const size_t b = std::min<size_t>(in.getBlocks(), blocks.size());
    Row* row = rows_.find(in.getRequest());
    if (row == nullptr) {
      ++stray_;
      for (size_t i = 0; i < b; ++i) {  // nobody's blocks stay private and are freed
        folds_.push_back({in.getRequest(), in.getSequence(),
                          in.getFirstBlock() + static_cast<uint32_t>(i), blocks[i], kNoBlock});
      }
    } else {
      step_came_back(*row, in.getSequence() != kNoSequence);
      append_content(*row, in, tokens.first(t), keys.first(k));
      publish_row(*row, in, blocks.first(b));
      if (in.getEnding() == wire::Ending::RUNNING) {
        set_pending(*row);
        wake_for_request(*row, false);
      } else {
        end_row(*row, in, cx);
      }
    }
    tokens = tokens.subspan(t);
    keys = keys.subspan(k);
    blocks = blocks.subspan(b);
  }
  send_folds(commit.getNumber(), cx);
  events_.flush(cx.out);
  send_released(0, false, cx);
  send_replies(commit, cx);
  for (const auto in : commit.getRows()) {
    if (leaves_for_good(in.getEnding())) {
      rows_.erase(in.getRequest());
    }
  }
  send_ready(cx);
  if (batch_.step != 0 && batch_.commits <= published_) {
    match_batch(cx);
  }
}

void PrefixIndex::append_content(Row& row, wire::CommitRow::Reader in,
                                 std::span<const uint32_t> tokens, std::span<const BlockKey> keys) {
  const uint32_t known = row.opaque() ? row.total : static_cast<uint32_t>(row.tokens.size());
  if (!row.opaque() && !tokens.empty()) {
    row.tokens.insert(row.tokens.end(), tokens.begin(), tokens.end());
  }
  row.total = known + in.getNewTokens();
  if (keys.empty()) {
    return;
  }
  const uint32_t block = block_tokens(row);
  row.keys.resize(row.full_keys);  // the key of a partial tail is replaced
  row.tail_tokens = 0;
  for (const BlockKey& key : keys) {
    const uint32_t begin = row.full_keys * block;
    if (row.tail_tokens != 0 || begin >= row.total) {
      ++stray_;  // a key for tokens that there are not
      return;
    }
    row.keys.push_back(key);
    if (row.total - begin >= block) {
      ++row.full_keys;
    } else if (in.getSealed() > begin) {
      row.tail_tokens = in.getSealed() - begin;  // the last token has no cache yet
    } else {
      row.keys.pop_back();
    }
  }
}

void PrefixIndex::publish_row(Row& row, wire::CommitRow::Reader in,
                              std::span<const uint32_t> blocks) {
  if (row.partial_source != kNoBlock) {
    events_.one(wire::EventKind::RELEASE, 0, &row, tree_, row.partial_source);
    tree_.unlease(row.partial_source);
    row.partial_source = kNoBlock;
  }
  if (!blocks.empty()) {
    settle_early(row, in.getFirstBlock());
  }
  const uint32_t block = block_tokens(row);
  for (size_t i = 0; i < blocks.size(); ++i) {
    Arrival arrival;
    arrival.block = blocks[i];
    arrival.index = in.getFirstBlock() + static_cast<uint32_t>(i);
    arrival.count = i + 1 == blocks.size() && in.getLastTokens() != 0 ? in.getLastTokens() : block;
    arrival.sequence = in.getSequence();
    if (!accept(row, arrival) && !tree_.live(arrival.block)) {
      folds_.push_back({row.request, arrival.sequence, arrival.index, arrival.block, kNoBlock});
    }
  }
}

/// Loads that the step behind this publish relied on have come true, even where the word of it is
/// still on its way.
void PrefixIndex::settle_early(Row& row, uint32_t below) {
  while (!row.loading.empty() && row.used < below) {
    const uint32_t block = row.loading.back();
    settle_copied(block, 0);
    wake_for_block(block);
  }
}

bool PrefixIndex::accept(Row& row, const Arrival& a) {
  const uint32_t block = block_tokens(row);
  const bool full = a.count == block && a.index < row.full_keys;
  const bool tail = a.count < block && a.index == row.full_keys && a.count == row.tail_tokens &&
                    row.listed() > row.full_keys && config_.publish_partial;
  const size_t begin = static_cast<size_t>(a.index) * block;
  if (row.cut || !(full || tail) || a.index > row.used || !tree_.known(a.block) ||
      tree_.doomed(a.block) || kept_back_.count(a.block) != 0 ||  // purged, not yet released
      (!row.opaque() && begin + a.count > row.tokens.size())) {
    return false;
  }
  // What stands at this place of the path so far, when the path is already longer.
  uint32_t old = row.anchor;
  while (old != kNoBlock && tree_.depth(old) > a.index) {
    old = tree_.parent(old);
  }
  const bool replaces = a.index < row.used;
  const uint32_t parent = replaces ? tree_.parent(old) : old;
  const auto tokens =
      row.opaque() ? std::span<const uint32_t>() : std::span(row.tokens).subspan(begin, a.count);
  const uint32_t known = tree_.find_child(parent, row.keys[a.index], row.make, row.domain);
  if (known == kNoBlock && tree_.live(a.block)) {
    ++stray_;
    return false;
  }
  if (replaces && known != old && (old != row.anchor || tree_.count(old) == block)) {
    ++stray_;  // only a partial block at the end may be outgrown
    return false;
  }
  if (known == kNoBlock) {
    prefix::NewBlock b;
    b.block = a.block;
    b.parent = parent;
    b.key = row.keys[a.index];
    b.make = row.make;
    b.count = static_cast<uint16_t>(a.count);
    b.tokens = tokens;
    b.mask = tier_bit(Tier::kDevice);
    b.tenant = row.tenant;
    b.domain = row.domain;
    tree_.insert(b);
    staged_.erase(a.block);  // another block had this handle
    take_place(row, a.block, a.index, wire::EventKind::INSERT);
    return true;
  }
  if (tree_.count(known) != a.count ||
      (config_.verify_tokens && !tree_.same_tokens(known, tokens))) {
    ++mismatched_;
    row.cut = true;
    return false;
  }
  if (tree_.motion(known) != Motion::kNone) {
    row.cut = true;  // its bytes on the device are not for anybody to use now
    return false;
  }
  if (known != a.block) {
    folds_.push_back({row.request, a.sequence, a.index, a.block, known});
    ++folded_;
  }
  if (tree_.on(known, 0)) {
    take_place(row, known, a.index, wire::EventKind::HIT);
  } else {
    tree_.add_tier(known, 0);  // the computed copy becomes the device copy of a block known below
    take_place(row, known, a.index, wire::EventKind::PROMOTED);
  }
  return true;
}

/// The row uses `block` at place `index` of its path from now on.
void PrefixIndex::take_place(Row& row, uint32_t block, uint32_t index, wire::EventKind how) {
  if (index < row.used) {
    if (block == row.anchor || index + 1 < row.used) {
      return;  // it stood there before
    }
    events_.one(wire::EventKind::RELEASE, 0, &row, tree_, row.anchor);  // a partial block, outgrown
  }
  events_.one(how, 0, &row, tree_, block);
  tree_.lease(block);
  if (row.anchor != kNoBlock) {
    tree_.unlease(row.anchor);
  }
  row.anchor = block;
  row.used = index + 1;
}

/// The first `count` entries of `loading`, the deepest, are no longer this row's.
void PrefixIndex::forget_loads(Row& row, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    loads_.erase(row.loading[i]);
  }
  row.loading.erase(row.loading.begin(), row.loading.begin() + static_cast<ptrdiff_t>(count));
}

void PrefixIndex::end_row(Row& row, wire::CommitRow::Reader in, StepContext& cx) {
  const uint32_t anchor = row.anchor;
  if (anchor != kNoBlock) {
    events_.open(wire::EventKind::RELEASE, 0, &row);
    for (uint32_t block = anchor; block != kNoBlock; block = tree_.parent(block)) {
      events_.add(tree_, block);
    }
    tree_.unlease(anchor);
  }
  if (in.getSequence() == kNoSequence) {
    for (const uint32_t block : row.loading) {  // the step was left before anything was loaded
      tree_.set_motion(block, Motion::kNone);
      wake_for_block(block);
    }
  }
  forget_loads(row, row.loading.size());
  row.anchor = kNoBlock;
  row.used = 0;
  row.cut = false;
  row.first.done = 2;
  row.staged = false;
  clear_pending(row);
  stop_waiting(row);
  wake_for_request(row, true);
  if (in.getEnding() == wire::Ending::PREEMPT_SWAP && anchor != kNoBlock) {
    swap_out(anchor, cx);
  }
}

void PrefixIndex::swap_out(uint32_t anchor, StepContext& cx) {
  if (tree_.lowest_tier() == 0) {
    return;
  }
  std::vector<uint32_t> leave;
  for (uint32_t block = anchor; block != kNoBlock && tree_.may_leave(block, 0);
       block = tree_.parent(block)) {
    tree_.set_motion(block, prefix::leaving(0));
    leave.push_back(block);
  }
  if (!leave.empty()) {
    events_.flush(cx.out);  // what it did before comes before
    send_unlinked(leave, 0, 0, RoomFor::kNobody, cx);
  }
}

void PrefixIndex::send_folds(uint64_t commit, StepContext& cx) {
  // What one fork could not publish another of the same commit may have.
  std::erase_if(folds_, [&](const Fold& fold) {
    return fold.canonical == kNoBlock && tree_.live(fold.duplicate);
  });
  if (folds_.empty()) {
    return;
  }
  cx.out.send(Kind::FOLDED, folds_.size() * 4 + 2, [&](wire::Message::Builder m) {
    auto folded = m.initFolded();
    folded.setCommit(commit);
    auto list = folded.initFolds(static_cast<unsigned>(folds_.size()));
    for (unsigned i = 0; i < folds_.size(); ++i) {
      list[i].setRequest(folds_[i].request);
      list[i].setSequence(folds_[i].sequence);
      list[i].setIndex(folds_[i].index);
      list[i].setDuplicate(folds_[i].duplicate);
      list[i].setCanonical(folds_[i].canonical);
    }
  });
  folds_.clear();
}

void PrefixIndex::send_replies(wire::Commit::Reader commit, StepContext& cx) {
  for (const auto reply : commit.getReplies()) {
    cx.out.send(Kind::REPLY, reply.totalSize().wordCount, [&](wire::Message::Builder m) {
      m.setReply(reply);
      const Row* row = rows_.find(reply.getRequest());
      if (row == nullptr || !reply.hasUsage()) {
        return;
      }
      auto usage = m.getReply().getUsage();
      usage.setListedBlocks(row->first.done != 0 ? row->first.listed : row->listed());
      usage.setHitBlocks(row->first.hit_blocks);
      usage.setHitTokens(row->first.hit_tokens);
      usage.setPartialTokens(row->first.partial_tokens);
      usage.setLoadedBlocks(row->first.loaded);
    });
  }
}

}  // namespace troupe
