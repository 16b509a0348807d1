// Why a block that a request asked for was not there, at the moment of its first lookup.
#include "apps/explain/observer.h"
#include "runtime/core/wire.h"

#include <algorithm>

namespace troupe {
namespace {
/// Reasons whose value is an event of the block's life, another one for each block.
bool was_there(Miss why) noexcept {
  return why == Miss::kEvicted || why == Miss::kLoadFailed || why == Miss::kPurged;
}
}  // namespace

void StoryObserver::looked_up(wire::Step::Reader step) {
  for (const auto found : step.getNews()) {
    look(found);
  }
}

void StoryObserver::look(wire::NewRow::Reader found) {
  const auto row = rows_.find(found.getRequest());
  const auto story = story_.requests.find(found.getRequest());
  if (row == rows_.end() || story == story_.requests.end() || story->second.first_lookup) {
    return;  // it comes again after a preemption; what counts is the first time
  }
  RequestStory& s = story->second;
  s.first_lookup = true;
  s.looked_up = now_;
  s.forced = found.getForce();
  s.listed = found.getListedBlocks();
  s.hits = std::min(found.getHitBlocks(), s.listed);
  s.on_device = found.getDeviceBlocks();
  row->second.keys.resize(std::min<size_t>(row->second.keys.size(), s.listed));
  explain(row->second, s);
  for (uint32_t i = s.hits; i < row->second.keys.size(); ++i) {
    const BlockName name = name_of(row->second, i);
    if (computing_.try_emplace(name, found.getRequest()).second) {
      row->second.computing.push_back(name);
    }
  }
}

uint64_t StoryObserver::branch_of(const Row& row, uint32_t hits) const {
  const uint32_t parent = hits == 0 ? kNoLife : story_.blocks.find(name_of(row, hits - 1));
  const uint32_t shared =
      story_.blocks.shared_tokens(parent, row.domain, row.make, tokens_of(row, hits));
  const bool near = shared > 0 || (parent != kNoLife && story_.blocks.at(parent).had_children);
  return near ? uint64_t{hits} * block_tokens_ + shared : kNowhere;
}

void StoryObserver::explain(const Row& row, RequestStory& story) const {
  if (story.hits >= row.keys.size()) {
    return;
  }
  uint64_t chain = 0;
  for (uint32_t i = 0; i < story.hits; ++i) {
    chain = BlockLives::extend(chain, tokens_of(row, i));
  }
  // Up to where the path is known, whether it is there or not: behind that it parts from all.
  uint32_t known = story.hits;
  while (known < row.keys.size() && story_.blocks.find(name_of(row, known)) != kNoLife) {
    ++known;
  }
  const uint64_t branch = known < row.keys.size() ? branch_of(row, known) : kNowhere;
  for (uint32_t i = story.hits; i < row.keys.size(); ++i) {
    chain = BlockLives::extend(chain, tokens_of(row, i));
    const MissRun run = why(row, story, i, chain, branch);
    MissRun* last = story.misses.empty() ? nullptr : &story.misses.back();
    if (last != nullptr && last->why == run.why &&
        (was_there(run.why) || last->value == run.value)) {
      ++last->count;
    } else {
      story.misses.push_back(run);
    }
  }
}

MissRun StoryObserver::why(const Row& row, const RequestStory& story, uint32_t index,
                           uint64_t chain, uint64_t differs_at) const {
  const BlockName name = name_of(row, index);
  MissRun run{Miss::kUnknown, index, 1, story_.blocks.find(name), 0};
  if (run.life != kNoLife && story_.blocks.at(run.life).live) {
    const bool tail = index >= row.full;
    const bool moves = tree_.motion(story_.blocks.at(run.life).handle) != prefix::Motion::kNone;
    run.why = moves || !tail ? Miss::kMoving : Miss::kAlignment;
    return run;
  }
  if (const auto other = computing_.find(name); other != computing_.end()) {
    run.why = story.forced ? Miss::kOverDeadline : Miss::kNotYetPublished;
    run.value = other->second;
    return run;
  }
  if (run.life != kNoLife) {
    const std::vector<LifeEvent>& events = story_.blocks.at(run.life).events;
    run.value = events.size() - 1;
    switch (events.back().what) {
      case LifeChange::kLost:
        run.why = Miss::kLoadFailed;
        break;
      case LifeChange::kPurged:
        run.why = Miss::kPurged;
        break;
      default:
        run.why = Miss::kEvicted;
    }
    return run;
  }
  const auto tokens = tokens_of(row, index);
  if (const uint32_t there = tokens.empty() ? kNoLife : story_.blocks.find_elsewhere(chain, name);
      there != kNoLife) {
    run.why = Miss::kOtherDomain;
    run.life = there;
    run.value = story_.blocks.at(there).name.domain;
  } else if (differs_at == kNowhere) {
    run.why = Miss::kNeverStored;
  } else if (uint64_t{index} * block_tokens_ + tokens.size() <= differs_at && !tokens.empty()) {
    run.why = Miss::kAlignment;  // all its tokens are there, within a longer block
  } else {
    run.why = Miss::kDiffers;
    run.value = differs_at;
  }
  return run;
}

}  // namespace troupe
