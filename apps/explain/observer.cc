// What became of the blocks; why a block missed is in reasons.cc.
#include "apps/explain/observer.h"

#include "runtime/core/wire.h"

#include <algorithm>

namespace troupe {

StoryObserver::StoryObserver(Story& story, const prefix::BlockTree& tree, uint32_t block_tokens)
    : story_(story), tree_(tree), block_tokens_(block_tokens) {}

uint32_t StoryObserver::life_of(uint32_t handle) const {
  const auto found = by_handle_.find(handle);
  return found == by_handle_.end() ? kNoLife : found->second;
}

std::span<const uint32_t> StoryObserver::tokens_of(const Row& row, uint32_t index) const {
  const size_t begin = std::min(row.tokens.size(), static_cast<size_t>(index) * block_tokens_);
  const size_t end = std::min(row.tokens.size(), begin + block_tokens_);
  return std::span(row.tokens).subspan(begin, end - begin);
}

void StoryObserver::on_step(uint64_t seq, const Frame& in, const std::vector<Outgoing>& out) {
  seq_ = seq;
  now_ = in.header().tick;
  kind_ = in.header().kind;
  settled_.clear();
  settles_reclaim_ = loses_ = false;
  FrameReader reader(in.words());
  const auto message = reader.message();
  if (kind_ == Kind::ADMIT) {
    admit(message.getAdmit());
  } else if (kind_ == Kind::PUBLISH) {
    commit(message.getPublish());
  } else if (kind_ == Kind::UNLINK) {
    unlink(message.getUnlink());
  } else if (kind_ == Kind::SETTLE) {
    settles_reclaim_ = message.getSettle().getReclaim();
    for (const auto item : message.getSettle().getItems()) {
      settled_[item.getBlock()] = item.getOutcome();
      loses_ = loses_ || item.getOutcome() == wire::Outcome::LOST;
    }
  }
  for (const Outgoing& sent : out) {  // in the order of what happened
    FrameReader answer(sent.frame.words());
    const auto m = answer.message();
    switch (sent.kind) {
      case Kind::EVENTS:
        events(m.getEvents());
        break;
      case Kind::LOAD:
        looked_up(m.getLoad());
        break;
      case Kind::RESERVE:
        looked_up(m.getReserve());
        break;
      case Kind::REPLY:
        replied(m.getReply());
        break;
      default:
        break;
    }
  }
}

void StoryObserver::admit(wire::Admit::Reader admit) {
  const auto spec = admit.getSpec();
  Row row;
  const auto tokens = span_of<uint32_t>(spec.getTokens());
  const auto keys = span_of<BlockKey>(spec.getKeys());
  row.tokens.assign(tokens.begin(), tokens.end());
  row.keys.assign(keys.begin(), keys.end());
  row.domain = spec.getDomain();
  row.make = prefix::make_of(spec.getBlockClass(), spec.getOpaque());
  row.full =
      static_cast<uint32_t>(std::min<size_t>(keys.size(), spec.getPromptTokens() / block_tokens_));
  RequestStory& story = story_.requests[admit.getRequest()];
  story.request = admit.getRequest();
  story.tenant = spec.getTenant();
  story.domain = spec.getDomain();
  rows_[admit.getRequest()] = std::move(row);
}

/// Generated tokens; the blocks that they fill are told by events.
void StoryObserver::commit(wire::Commit::Reader commit) {
  auto tokens = span_of<uint32_t>(commit.getTokens());
  for (const auto in : commit.getRows()) {
    const size_t n = std::min<size_t>(in.getNewTokens(), tokens.size());
    const auto row = rows_.find(in.getRequest());
    if (row != rows_.end() && !row->second.tokens.empty()) {
      row->second.tokens.insert(row->second.tokens.end(), tokens.begin(),
                                tokens.begin() + static_cast<ptrdiff_t>(n));
    }
    tokens = tokens.subspan(n);
  }
}

void StoryObserver::unlink(wire::Unlink::Reader unlink) {
  const auto victims = span_of<uint32_t>(unlink.getVictims());
  const auto scores = span_of<int64_t>(unlink.getScores());
  PolicyAnswer answer;
  answer.at = now_;
  answer.tier = unlink.getTier();
  for (size_t i = 0; i < victims.size(); ++i) {
    answer.lives.push_back(life_of(victims[i]));
    named_[victims[i]] = {static_cast<uint32_t>(story_.answers.size()), static_cast<uint32_t>(i)};
  }
  if (scores.size() == victims.size()) {
    answer.scores.assign(scores.begin(), scores.end());
  }
  story_.answers.push_back(std::move(answer));
}

void StoryObserver::events(wire::EventBatch::Reader events) {
  for (const auto batch : events.getBatches()) {
    switch (batch.getKind()) {
      case wire::EventKind::INSERT:
        stored(batch);
        break;
      case wire::EventKind::REMOVE:
        left(batch);
        break;
      case wire::EventKind::PROMOTED:
        changed(batch, LifeChange::kPromoted);
        break;
      case wire::EventKind::DEMOTED:
        changed(batch, LifeChange::kDemoted);
        break;
      case wire::EventKind::REFUSED:
        changed(batch, LifeChange::kStayed);
        break;
      case wire::EventKind::HIT:
        for (const uint32_t block : span_of<uint32_t>(batch.getBlocks())) {
          if (const uint32_t life = life_of(block); life != kNoLife) {
            ++story_.blocks.at(life).hits;
            story_.blocks.at(life).last_hit = now_;
          }
        }
        break;
      default:
        break;
    }
  }
}

void StoryObserver::stored(wire::Events::Reader batch) {
  const auto blocks = span_of<uint32_t>(batch.getBlocks());
  const auto parents = span_of<uint32_t>(batch.getParents());
  const auto depths = span_of<uint32_t>(batch.getDepths());
  const auto counts = span_of<uint32_t>(batch.getTokens());
  const auto row = rows_.find(batch.getRequest());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t block = blocks[i];
    if (!tree_.live(block)) {
      continue;  // purged by the same step
    }
    std::span<const uint32_t> tokens;
    if (row != rows_.end() && i < depths.size() && i < counts.size()) {
      tokens = tokens_of(row->second, depths[i]);
      tokens = tokens.first(std::min<size_t>(tokens.size(), counts[i]));
    }
    const BlockName name{tree_.key(block), tree_.domain(block), tree_.make(block)};
    const uint32_t parent = i < parents.size() ? life_of(parents[i]) : kNoLife;
    const uint32_t life = story_.blocks.store(name, parent, block, tokens);
    by_handle_[block] = life;
    named_.erase(block);
    computing_.erase(name);
    LifeEvent event;
    event.at = now_;
    event.delivery = seq_;
    event.what = LifeChange::kStored;
    event.tier = batch.getTier();
    event.request = batch.getRequest();
    story_.blocks.at(life).events.push_back(event);
  }
}

void StoryObserver::changed(wire::Events::Reader batch, LifeChange what) {
  for (const uint32_t block : span_of<uint32_t>(batch.getBlocks())) {
    const uint32_t life = life_of(block);
    if (life == kNoLife) {
      continue;
    }
    LifeEvent event;
    event.at = now_;
    event.delivery = seq_;
    event.what = what;
    event.tier = batch.getTier();
    event.request = batch.getRequest();
    story_.blocks.at(life).events.push_back(event);
    if (what == LifeChange::kStayed) {
      named_.erase(block);
    }
  }
}

/// Why a block is gone, from the step that took it.
LifeEvent StoryObserver::ending_of(uint32_t block) const {
  LifeEvent event;
  const auto item = settled_.find(block);
  if (kind_ != Kind::SETTLE) {
    event.what = LifeChange::kPurged;
  } else if (item == settled_.end()) {
    event.what = loses_ ? LifeChange::kLost : LifeChange::kEvictedWith;
  } else if (item->second == wire::Outcome::LOST) {
    event.what = LifeChange::kLost;
  } else {
    event.what = settles_reclaim_ ? LifeChange::kEvicted : LifeChange::kSwappedOut;
  }
  if (const auto named = named_.find(block);
      event.what == LifeChange::kEvicted && named != named_.end()) {
    event.answer = named->second.answer;
    event.place = named->second.place;
  }
  return event;
}

void StoryObserver::left(wire::Events::Reader batch) {
  for (const uint32_t block : span_of<uint32_t>(batch.getBlocks())) {
    const uint32_t life = life_of(block);
    if (life == kNoLife) {
      continue;  // it lay in several tiers and its end is told
    }
    LifeEvent event;
    event.what = LifeChange::kLeftTier;
    if (!tree_.live(block)) {
      event = ending_of(block);
      story_.blocks.at(life).live = false;
      by_handle_.erase(block);
    }
    named_.erase(block);
    event.at = now_;
    event.delivery = seq_;
    event.tier = batch.getTier();
    story_.blocks.at(life).events.push_back(event);
  }
}

void StoryObserver::replied(wire::Reply::Reader reply) {
  const auto story = story_.requests.find(reply.getRequest());
  if (story == story_.requests.end()) {
    return;
  }
  RequestStory& s = story->second;
  s.answered = true;
  s.usage_listed = reply.getUsage().getListedBlocks();
  s.usage_hits = reply.getUsage().getHitBlocks();
  if (!s.first_lookup) {
    s.listed = s.usage_listed;
    if (s.listed > 0) {
      s.misses.push_back({Miss::kNotLookedUp, 0, s.listed, kNoLife, 0});
    }
  }
  if (const auto row = rows_.find(reply.getRequest()); row != rows_.end()) {
    for (const BlockName& name : row->second.computing) {
      const auto at = computing_.find(name);
      if (at != computing_.end() && at->second == reply.getRequest()) {
        computing_.erase(at);
      }
    }
    rows_.erase(row);
  }
}

void StoryObserver::finish() {
  for (const auto& [id, s] : story_.requests) {
    uint64_t missed = 0;
    for (const MissRun& run : s.misses) {
      story_.totals[static_cast<size_t>(run.why)] += run.count;
      missed += run.count;
    }
    story_.listed += s.listed;
    story_.hits += s.hits;
    const bool agree = s.listed == s.usage_listed && s.hits == s.usage_hits &&
                       missed == uint64_t{s.listed} - s.hits;
    story_.disagreements += s.answered && !agree ? 1 : 0;
  }
}

}  // namespace troupe
