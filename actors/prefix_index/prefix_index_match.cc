// The lookup: what a new row may reuse, what it must wait for, and the step on its way.
#include "actors/prefix_index/prefix_index.h"

#include <algorithm>
#include <bit>

namespace troupe {

using prefix::Motion;

PrefixIndex::Found PrefixIndex::look_up(const Row& row, uint32_t total) {
  const uint32_t block = block_tokens(row);
  const bool compare = config_.verify_tokens && !row.opaque();
  Found found;
  found.offset = static_cast<uint32_t>(blocks_.size());
  const uint32_t full = std::min(row.full_keys, total / block);
  prefix::Lookup lookup;
  lookup.keys = std::span(row.keys).first(full);
  lookup.tokens = compare ? std::span<const uint32_t>(row.tokens) : std::span<const uint32_t>();
  lookup.block_tokens = block;
  lookup.make = row.make;
  lookup.domain = row.domain;
  tree_.match(lookup, blocks_, found.obstacle);
  found.hits = static_cast<uint32_t>(blocks_.size()) - found.offset;
  found.tokens = found.hits * block;
  const uint32_t last = found.hits == 0 ? kNoBlock : blocks_.back();
  const bool tail = found.hits == full && full == row.full_keys && row.listed() > full &&
                    found.obstacle == kNoBlock && found.tokens + row.tail_tokens <= total;
  if (tail) {
    const uint32_t child = tree_.find_child(last, row.keys[full], row.make, row.domain);
    const auto tokens =
        compare ? std::span(row.tokens).subspan(found.tokens, row.tail_tokens) : lookup.tokens;
    if (child != kNoBlock && tree_.motion(child) != Motion::kNone) {
      found.obstacle = child;
    } else if (child != kNoBlock && tree_.count(child) == row.tail_tokens &&
               (!compare || tree_.same_tokens(child, tokens)) &&
               (tree_.on(child, 0) || found.tokens + row.tail_tokens == total)) {
      // (To load a partial block only to copy it costs more than its few tokens.)
      blocks_.push_back(child);
      ++found.hits;
      found.tokens += row.tail_tokens;
      found.last_partial = row.tail_tokens;
    }
  }
  while (found.device < found.hits && tree_.on(blocks_[found.offset + found.device], 0)) {
    ++found.device;
  }
  // Below a matched block only: its key vouches for the domain and adapter of what hangs on it.
  if (config_.partial_min_tokens != 0 && !row.opaque() && last != kNoBlock &&
      found.last_partial == 0) {
    const size_t end = std::min<size_t>({total, found.tokens + block, row.tokens.size()});
    if (end > found.tokens) {
      const auto rest = std::span(row.tokens).subspan(found.tokens, end - found.tokens);
      found.partial = tree_.best_partial(last, rest, row.make, config_.partial_min_tokens, block);
    }
  }
  return found;
}

bool PrefixIndex::must_wait(Row& row, const Found& found) {
  if (found.obstacle != kNoBlock) {
    row.waits_block = found.obstacle;
    return true;
  }
  if (found.hits < row.publishable()) {
    const auto computing = pending_.find({row.make, row.domain, row.keys[found.hits]});
    if (computing != pending_.end() && computing->second != row.request) {
      row.waits_request = computing->second;
      return true;
    }
  }
  return false;
}

/// Leading tokens whose cached values the two have in common. Equal keys vouch for domain, adapter,
/// media and positions, tokens alone do not; so without one equal full block nothing is shared.
uint32_t PrefixIndex::fork_tokens(const Row& row, uint32_t total) {
  const Row* parent = row.parent == 0 ? nullptr : rows_.find(row.parent);
  if (parent == nullptr || parent->make != row.make || parent->domain != row.domain) {
    return 0;
  }
  const size_t keyed = std::min(row.full_keys, parent->full_keys);
  const auto end = row.keys.begin() + static_cast<ptrdiff_t>(keyed);
  const auto equal = static_cast<size_t>(
      std::mismatch(row.keys.begin(), end, parent->keys.begin()).first - row.keys.begin());
  const auto below = static_cast<uint32_t>(equal) * block_tokens(row);
  if (row.opaque() || equal == 0) {
    return std::min(below, total);
  }
  const size_t n = std::min<size_t>({row.tokens.size(), parent->tokens.size(), total});
  const auto last = row.tokens.begin() + static_cast<ptrdiff_t>(n);
  const auto common = static_cast<uint32_t>(
      std::mismatch(row.tokens.begin(), last, parent->tokens.begin()).first - row.tokens.begin());
  // Where both have the next key and it differs, so must a token of that block.
  return equal < keyed && common >= below + block_tokens(row) ? below : common;
}

bool PrefixIndex::on_disk_only(uint32_t block) const noexcept {
  return tree_.mask(block) >= (1U << static_cast<uint8_t>(Tier::kDisk)) &&
         std::countr_zero(tree_.mask(block)) >= static_cast<int>(Tier::kDisk);
}

/// Asks for what lies on disk only; how many blocks that are. They are in motion from now on, so
/// whoever wants them waits for their settlement.
uint32_t PrefixIndex::stage(const Found& found, StepContext& cx) {
  std::vector<uint32_t> wanted;
  for (const uint32_t block : std::span(blocks_).subspan(found.offset, found.hits)) {
    if (on_disk_only(block)) {
      tree_.set_motion(block, Motion::kLoading);
      wanted.push_back(block);
    }
  }
  if (wanted.empty()) {
    return 0;
  }
  stage_asked_ += wanted.size();
  cx.out.send(Kind::STAGE, wanted.size() * 9 + 2, [&](wire::Message::Builder m) {
    auto list = m.initStage().initBlocks(static_cast<unsigned>(wanted.size()));
    for (unsigned i = 0; i < wanted.size(); ++i) {
      fill_leaving(list[i], wanted[i], static_cast<uint8_t>(Tier::kDisk));
    }
  });
  return static_cast<uint32_t>(wanted.size());
}

bool PrefixIndex::wait_for_stage(Row& row, const Found& found, StepContext& cx) {
  if (row.staged) {
    return false;
  }
  const auto hits = std::span<const uint32_t>(blocks_).subspan(found.offset, found.hits);
  const auto first = std::find_if(hits.begin(), hits.end(),
                                  [&](uint32_t block) { return on_disk_only(block); });
  if (first == hits.end()) {
    return false;
  }
  row.staged = true;
  row.waits_block = *first;
  if (row.first.done == 0) {
    row.first = {1, row.listed(), found.hits, found.tokens, found.partial.tokens, 0};
  }
  stage(found, cx);
  return true;
}

void PrefixIndex::leave_disk(const Row& row, Found& found) {
  uint32_t keep = 0;
  while (keep < found.hits && !on_disk_only(blocks_[found.offset + keep])) {
    ++keep;
  }
  if (keep == found.hits) {
    return;
  }
  stage_missed_ += found.hits - keep;
  blocks_.resize(found.offset + keep);
  found.hits = keep;
  found.device = std::min(found.device, keep);
  found.tokens = keep * block_tokens(row);
  found.last_partial = 0;
  found.partial = {};
}

void PrefixIndex::enter(Row& row, const Found& found, uint32_t total) {
  const auto hits = std::span<const uint32_t>(blocks_).subspan(found.offset, found.hits);
  for (const uint32_t block : hits) {
    tree_.count_use(block);
    stage_used_ += staged_.erase(block);
  }
  const auto on_device = hits.first(found.device);
  if (!on_device.empty()) {
    row.anchor = on_device.back();
    tree_.lease(row.anchor);
    events_.open(wire::EventKind::HIT, 0, &row);
    events_.add(tree_, on_device);
  }
  row.used = found.device;
  row.cut = false;
  const auto below = hits.subspan(found.device);
  row.loading.assign(below.rbegin(), below.rend());
  for (uint8_t tier = 1; tier < kTierCount && !below.empty(); ++tier) {
    events_.open(wire::EventKind::HIT, tier, &row);
    for (const uint32_t block : below) {
      if (tree_.on(block, tier)) {
        events_.add(tree_, block);
      }
    }
  }
  for (const uint32_t block : below) {
    tree_.set_motion(block, Motion::kLoading);
    loads_.emplace(block, row.request);
  }
  if (found.partial.block != kNoBlock) {
    row.partial_source = found.partial.block;
    tree_.lease(row.partial_source);
    events_.one(wire::EventKind::HIT, 0, &row, tree_, row.partial_source);
  }
  if (row.first.done == 0) {
    row.first = {1, row.listed(), found.hits, found.tokens, found.partial.tokens, 0};
  }
  row.total = std::max(row.total, total);
  set_pending(row);
}

/// To those who only watch; when they are behind, no more than that there was one.
void PrefixIndex::tell_lookup(const Row& row, StepContext& cx) {
  if (row.opaque() && row.keys.empty()) {
    return;  // a request without keys asks nothing of the cache
  }
  if (unread_ >= config_.unread_lookups) {
    ++skipped_;
    return;
  }
  ++unread_;
  std::vector<uint64_t> keys(row.keys.size());
  std::transform(row.keys.begin(), row.keys.end(), keys.begin(), prefix::short_key);
  cx.out.send(Kind::LOOKUP, data_words(keys.size() * sizeof(uint64_t)),
              [&](wire::Message::Builder m) {
                auto lookup = m.initLookup();
                lookup.setRequest(row.request);
                lookup.setSession(row.session);
                lookup.setTenant(row.tenant);
                lookup.setBlockTokens(block_tokens(row));
                lookup.setKeys(data_of(keys));
                lookup.setSkipped(std::exchange(skipped_, 0));
              });
}

void PrefixIndex::on_match(wire::Step::Reader step, StepContext& cx) {
  if (batch_.step != 0) {
    ++stray_;  // one step is in flight at a time
    return;
  }
  batch_.step = step.getStep();
  batch_.commits = step.getCommits();
  for (const auto row : step.getRows()) {
    batch_.rows.push_back(
        {row.getRequest(), row.getSequence(), row.getBefore(), row.getTokens(), 0});
  }
  for (const auto row : step.getNews()) {
    batch_.news.push_back({row.getRequest(), row.getSequence(), row.getBudget(), row.getTotal(),
                           row.getParent(), row.getForce() ? 1U : 0U, row.getBlockClass()});
  }
  if (batch_.commits <= published_) {
    match_batch(cx);
  }
}

void PrefixIndex::match_batch(StepContext& cx) {
  bool load = false;
  for (const NewIn& in : batch_.news) {
    Row* row = rows_.find(in.request);
    if (row == nullptr || row->anchor != kNoBlock || !row->loading.empty()) {
      stray_ += row == nullptr ? 0 : 1;  // it has entered before and was not given back
      gone_.push_back(in.request);
      continue;
    }
    stop_waiting(*row);
    Found found = look_up(*row, in.total);
    const bool stages = config_.stage && in.force == 0 && wait_for_stage(*row, found, cx);
    if (config_.stage && !stages) {
      leave_disk(*row, found);
    }
    if (stages || (in.force == 0 && must_wait(*row, found))) {
      blocks_.resize(found.offset);
      start_waiting(*row);
      ++waits_;
      held_.push_back(row->request);
      continue;
    }
    if (watched_ && row->first.done == 0) {
      tell_lookup(*row, cx);
    }
    enter(*row, found, in.total);
    load = load || found.hits > found.device;
    const uint32_t cached = found.tokens + found.partial.tokens;
    const uint32_t left = std::max(1U, in.total - std::min(in.total, cached));
    news_.push_back(
        {in, found, row->listed(), fork_tokens(*row, in.total), std::min(in.budget, left)});
  }
  for (const NewOut& out : news_) {
    rows_.find(out.in.request)->riding = load;
  }
  events_.flush(cx.out);
  const bool empty = news_.empty() && batch_.rows.empty();
  if (empty || !held_.empty() || !gone_.empty()) {
    send_held(empty, cx);
  }
  if (!empty) {
    const size_t words = batch_.rows.size() * 4 + news_.size() * 13 +
                         data_words(blocks_.size() * sizeof(uint32_t)) +
                         data_words(lower_blocks() * (sizeof(BlockKey) + 1)) + 10;
    cx.out.send(load ? Kind::LOAD : Kind::RESERVE, words, [&](wire::Message::Builder m) {
      fill_step(load ? m.initLoad() : m.initReserve());
    });
  }
  batch_.step = 0;
  batch_.rows.clear();
  batch_.news.clear();
  news_.clear();
  blocks_.clear();
  held_.clear();
  gone_.clear();
}

void PrefixIndex::send_held(bool empty, StepContext& cx) {
  cx.out.send(Kind::HELD, data_words(held_.size() * 8) + data_words(gone_.size() * 8),
              [&](wire::Message::Builder m) {
                auto held = m.initHeld();
                held.setStep(batch_.step);
                held.setWaiting(data_of(held_));
                held.setGone(data_of(gone_));
                held.setStepEmpty(empty);
              });
}

size_t PrefixIndex::lower_blocks() const noexcept {
  size_t count = 0;
  for (const NewOut& row : news_) {
    count += row.found.hits - row.found.device;
  }
  return count;
}

void PrefixIndex::fill_step(wire::Step::Builder out) const {
  const auto keys =
      span_of<BlockKey>(out.initKeys(static_cast<unsigned>(lower_blocks() * sizeof(BlockKey))));
  const auto tiers = span_of<uint8_t>(out.initTiers(static_cast<unsigned>(lower_blocks())));
  uint32_t key = 0;
  out.setStep(batch_.step);
  out.setCommits(batch_.commits);
  out.setBlocks(data_of(blocks_));
  auto rows = out.initRows(static_cast<unsigned>(batch_.rows.size()));
  for (unsigned i = 0; i < batch_.rows.size(); ++i) {
    rows[i].setRequest(batch_.rows[i].request);
    rows[i].setSequence(batch_.rows[i].sequence);
    rows[i].setBefore(batch_.rows[i].before);
    rows[i].setTokens(batch_.rows[i].tokens);
  }
  auto news = out.initNews(static_cast<unsigned>(news_.size()));
  for (unsigned i = 0; i < news_.size(); ++i) {
    const NewOut& row = news_[i];
    auto to = news[i];
    to.setRequest(row.in.request);
    to.setSequence(row.in.sequence);
    to.setBudget(row.in.budget);
    to.setTotal(row.in.total);
    to.setForce(row.in.force != 0);
    to.setBlockClass(static_cast<uint8_t>(row.in.block_class));
    to.setParent(row.in.parent);
    to.setHitBlocks(row.found.hits);
    to.setHitTokens(row.found.tokens);
    to.setDeviceBlocks(row.found.device);
    to.setOffset(row.found.offset);
    to.setPartialSource(row.found.partial.block);
    to.setPartialTokens(row.found.partial.tokens);
    to.setTokens(row.tokens);
    to.setListedBlocks(row.listed);
    to.setLastPartial(row.found.last_partial);
    to.setForkTokens(row.fork_tokens);
    to.setKeyOffset(key);
    for (uint32_t k = row.found.device; k < row.found.hits; ++k) {
      const uint32_t block = blocks_[row.found.offset + k];
      keys[key] = tree_.key(block);
      tiers[key++] = static_cast<uint8_t>(std::countr_zero(tree_.mask(block)));
    }
  }
}

}  // namespace troupe
