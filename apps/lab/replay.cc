#include "apps/lab/replay.h"

#include <algorithm>

namespace troupe::lab {

PrefixCache::PrefixCache(const Trace& trace, uint32_t capacity, plugin::EvictionInstance& policy)
    : trace_(trace),
      capacity_(capacity),
      batch_(policy),
      may_over_evict_((policy.desc().flags & TROUPE_FLAG_MAY_OVER_EVICT) != 0),
      handle_of_(trace.unique, kNone),
      id_of_(capacity, kNone),
      uses_(capacity, 0),
      children_(capacity, 0),
      parent_(capacity, kNone),
      free_(capacity),
      victims_(capacity),
      cached_of_(trace.requests(), 0) {
  for (uint32_t i = 0; i < capacity; ++i) {
    free_[i] = capacity - 1 - i;
  }
  counts_.hits_of.reserve(trace.requests());
}

uint32_t PrefixCache::match(std::span<const uint32_t> ids) {
  path_.resize(ids.size());
  uint32_t hits = 0;
  for (const uint32_t id : ids) {
    const uint32_t handle = handle_of_[id];
    if (handle == kNone) {
      break;
    }
    ++uses_[handle];
    path_[hits++] = handle;
  }
  return hits;
}

// A victim must be resident, unused and without a resident child, judged after those before it.
bool PrefixCache::give_up(uint32_t block) {
  const char* wrong = nullptr;
  if (block >= capacity_) {
    wrong = "is no handle";
  } else if (id_of_[block] == kNone) {
    wrong = "is not resident (or was named before)";
  } else if (uses_[block] != 0) {
    wrong = "is in use";
  } else if (children_[block] != 0) {
    wrong = "has a resident child";
  }
  if (wrong != nullptr) {
    status_ = Status(Code::kInvalidArgument,
                     "wrong victim: block " + std::to_string(block) + " " + wrong);
    return false;
  }
  handle_of_[id_of_[block]] = kNone;
  id_of_[block] = kNone;
  if (parent_[block] != kNone) {
    --children_[parent_[block]];
  }
  free_.push_back(block);
  return true;
}

uint32_t PrefixCache::make_room(std::span<const uint32_t> missing) {
  const auto wanted = static_cast<uint32_t>(missing.size());
  const auto vacant = static_cast<uint32_t>(free_.size());
  if (wanted <= vacant) {
    return wanted;
  }
  uint64_t* keys = batch_.keys.take(wanted);
  for (uint32_t i = 0; i < wanted; ++i) {
    keys[i] = missing[i];
  }
  troupe_victims_call call{};
  call.struct_size = sizeof call;
  call.want = std::min(wanted - vacant, capacity_);
  call.room = may_over_evict_ ? capacity_ : call.want;
  call.victims = victims_.data();
  call.wanted_keys = keys;
  call.wanted_count = wanted;
  call.free_blocks = vacant;
  if (!batch_.ask(call)) {
    status_ = Status(Code::kInternal, "the policy failed in victims");
    return 0;
  }
  for (uint32_t i = 0; i < call.named; ++i) {
    if (!give_up(victims_[i])) {
      return 0;
    }
  }
  counts_.evictions += call.named;
  counts_.over_evicted += call.named > call.want ? call.named - call.want : 0;
  return std::min(wanted, static_cast<uint32_t>(free_.size()));
}

// Blocks path[first … first + count), whose handles are chosen here; arrays go out deepest first.
void PrefixCache::insert(std::span<const uint32_t> ids, uint32_t first, uint32_t count,
                         uint64_t ordinal, uint64_t session) {
  uint32_t* words = batch_.words.take(size_t{4} * count);
  uint64_t* keys = batch_.keys.take(count);
  uint32_t* parents = words + count;
  uint32_t* depths = parents + count;
  uint32_t* tokens = depths + count;
  uint32_t parent = first == 0 ? kNone : path_[first - 1];
  if (parent != kNone) {
    ++children_[parent];
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t handle = free_.back();
    free_.pop_back();
    const uint32_t id = ids[first + i];
    path_[first + i] = handle;
    handle_of_[id] = handle;
    id_of_[handle] = id;
    uses_[handle] = 1;
    children_[handle] = i + 1 < count ? 1 : 0;
    parent_[handle] = parent;
    const uint32_t to = count - 1 - i;
    words[to] = handle;
    parents[to] = parent;
    depths[to] = first + i;
    tokens[to] = trace_.block_tokens;
    keys[to] = id;
    parent = handle;
  }
  troupe_events& e = batch_.add(TROUPE_EVENT_INSERT, ordinal, session, words, count);
  e.parents = parents;
  e.depths = depths;
  e.tokens = tokens;
  e.keys = keys;
}

uint32_t PrefixCache::begin(size_t r, uint64_t ordinal) {
  const std::span<const uint32_t> ids = trace_.blocks(r);
  const auto session = static_cast<uint64_t>(trace_.sessions[r]);
  const uint32_t hits = match(ids);
  if (hits > 0) {
    uint32_t* blocks = batch_.words.take(hits);
    std::reverse_copy(path_.begin(), path_.begin() + hits, blocks);
    batch_.add(TROUPE_EVENT_HIT, ordinal, session, blocks, hits);
  }
  uint32_t cached = hits;
  std::span<const uint32_t> missing = ids.subspan(hits);
  // An id that stands twice in one request, or is resident out of order, ends what can be cached.
  for (size_t i = 0; i < missing.size(); ++i) {
    if (handle_of_[missing[i]] != kNone) {
      missing = missing.first(i);
      break;
    }
  }
  if (!missing.empty()) {
    const uint32_t room = make_room(missing);
    if (!status_) {
      return hits;
    }
    if (room > 0) {
      insert(ids, hits, room, ordinal, session);
    }
    cached += room;
  }
  cached_of_[r] = cached;
  counts_.accesses += ids.size();
  counts_.hits += hits;
  counts_.uncached += ids.size() - cached;
  counts_.hits_of.push_back(hits);
  return hits;
}

void PrefixCache::end(size_t r, uint64_t ordinal) {
  const uint32_t count = cached_of_[r];
  if (count == 0) {
    return;
  }
  const std::span<const uint32_t> ids = trace_.blocks(r);
  uint32_t* blocks = batch_.words.take(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t handle = handle_of_[ids[count - 1 - i]];
    --uses_[handle];
    blocks[i] = handle;
  }
  batch_.add(TROUPE_EVENT_RELEASE, ordinal, static_cast<uint64_t>(trace_.sessions[r]), blocks,
             count);
  if (batch_.full() && !batch_.flush()) {
    status_ = Status(Code::kInternal, "the policy failed in on_events");
  }
}

void PrefixCache::finish() {
  if (!batch_.flush() && status_) {
    status_ = Status(Code::kInternal, "the policy failed in on_events");
  }
}

Expected<Counts> replay_prefix(const Trace& trace, uint32_t capacity,
                               plugin::EvictionInstance& policy) {
  PrefixCache cache(trace, capacity, policy);
  for (size_t r = 0; r < trace.requests() && cache.status(); ++r) {
    cache.begin(r, r);
    cache.end(r, r);
  }
  cache.finish();
  if (!cache.status()) {
    return cache.status();
  }
  return cache.counts();
}

}  // namespace troupe::lab
