#include "runtime/plugin/ghost_cache.h"

#include "runtime/base/digest.h"

#include <algorithm>

namespace troupe::plugin {

GhostCache::GhostCache(uint32_t capacity, uint32_t ids, EvictionInstance& policy)
    : capacity_(capacity),
      batch_(policy),
      may_over_evict_((policy.desc().flags & TROUPE_FLAG_MAY_OVER_EVICT) != 0),
      handle_of_(ids, kNone),
      id_of_(capacity, kNone),
      uses_(capacity, 0),
      children_(capacity, 0),
      parent_(capacity, kNone),
      free_(capacity),
      victims_(capacity) {
  for (uint32_t i = 0; i < capacity; ++i) {
    free_[i] = capacity - 1 - i;
  }
}

uint32_t GhostCache::match(std::span<const uint32_t> ids) {
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
bool GhostCache::give_up(uint32_t block) {
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

uint32_t GhostCache::make_room(const policy::GhostLookup& request, uint32_t first,
                               uint32_t wanted) {
  const auto vacant = static_cast<uint32_t>(free_.size());
  if (wanted <= vacant) {
    return wanted;
  }
  uint64_t* keys = batch_.keys.take(wanted);
  for (uint32_t i = 0; i < wanted; ++i) {
    keys[i] = request.key(first + i);
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
void GhostCache::insert(const policy::GhostLookup& request, uint32_t first, uint32_t count) {
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
    const uint32_t id = request.ids[first + i];
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
    tokens[to] = request.block_tokens;
    keys[to] = request.key(first + i);
    parent = handle;
  }
  troupe_events& e =
      batch_.add(TROUPE_EVENT_INSERT, request.ordinal, request.session, words, count);
  e.parents = parents;
  e.depths = depths;
  e.tokens = tokens;
  e.keys = keys;
}

GhostCache::Entered GhostCache::begin(const policy::GhostLookup& request) {
  const std::span<const uint32_t> ids = request.ids;
  const uint32_t hits = match(ids);
  if (hits > 0) {
    uint32_t* blocks = batch_.words.take(hits);
    std::reverse_copy(path_.begin(), path_.begin() + hits, blocks);
    batch_.add(TROUPE_EVENT_HIT, request.ordinal, request.session, blocks, hits);
  }
  Entered entered{hits, hits};
  // An id that stands twice in one request, or is resident out of order, ends what can be cached.
  auto missing = static_cast<uint32_t>(ids.size()) - hits;
  for (uint32_t i = 0; i < missing; ++i) {
    if (handle_of_[ids[hits + i]] != kNone) {
      missing = i;
    }
  }
  if (missing > 0) {
    const uint32_t room = make_room(request, hits, missing);
    if (!status_) {
      return entered;
    }
    if (room > 0) {
      insert(request, hits, room);
    }
    entered.cached += room;
  }
  counts_.accesses += ids.size();
  counts_.hits += hits;
  counts_.uncached += ids.size() - entered.cached;
  return entered;
}

void GhostCache::end(std::span<const uint32_t> ids, uint64_t ordinal, uint64_t session) {
  const auto count = static_cast<uint32_t>(ids.size());
  if (count == 0) {
    return;
  }
  uint32_t* blocks = batch_.words.take(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t handle = handle_of_[ids[count - 1 - i]];
    --uses_[handle];
    blocks[i] = handle;
  }
  batch_.add(TROUPE_EVENT_RELEASE, ordinal, session, blocks, count);
  if (batch_.full() && !batch_.flush()) {
    status_ = Status(Code::kInternal, "the policy failed in on_events");
  }
}

void GhostCache::finish() {
  if (!batch_.flush() && status_) {
    status_ = Status(Code::kInternal, "the policy failed in on_events");
  }
}

uint64_t GhostCache::digest() const noexcept {
  Digest d;
  for (uint32_t block = 0; block < capacity_; ++block) {
    if (id_of_[block] != kNone) {
      d.add(block).add(id_of_[block]).add(parent_[block]);
    }
  }
  return d.add(counts_.accesses).add(counts_.hits).add(counts_.evictions).value();
}

void GhostCache::save(StateSink& sink) const {
  sink.array(id_of_);
  sink.array(parent_);
  sink.array(free_);
  sink.u64(handle_of_.size());
  sink.u64(counts_.accesses);
  sink.u64(counts_.hits);
  sink.u64(counts_.evictions);
  sink.u64(counts_.uncached);
  sink.u64(counts_.over_evicted);
}

Status GhostCache::load(StateSource& source) {
  id_of_ = source.array<uint32_t>();
  parent_ = source.array<uint32_t>();
  free_ = source.array<uint32_t>();
  const uint64_t ids = source.u64();
  for (uint64_t* n : {&counts_.accesses, &counts_.hits, &counts_.evictions, &counts_.uncached,
                      &counts_.over_evicted}) {
    *n = source.u64();
  }
  TROUPE_TRY(source.status());
  bool whole = id_of_.size() == capacity_ && parent_.size() == capacity_ && ids < kNone;
  handle_of_.assign(whole ? ids : 0, kNone);
  std::fill(children_.begin(), children_.end(), 0);
  size_t resident = 0;
  for (uint32_t block = 0; whole && block < capacity_; ++block) {
    if (id_of_[block] == kNone) {
      continue;
    }
    ++resident;
    whole = id_of_[block] < ids && (parent_[block] == kNone || parent_[block] < capacity_);
    if (whole) {
      handle_of_[id_of_[block]] = block;
      children_[parent_[block] == kNone ? block : parent_[block]] += parent_[block] != kNone;
    }
  }
  for (const uint32_t block : free_) {
    whole = whole && block < capacity_ && id_of_[block] == kNone;
  }
  return whole && resident + free_.size() == capacity_
             ? Status::ok()
             : Status(Code::kCorrupt, "ghost cache: the rows do not make a cache of " +
                                          std::to_string(capacity_) + " blocks");
}

namespace {

class OwnGhost final : public policy::Ghost {
 public:
  explicit OwnGhost(EvictionInstance policy)
      : policy_(std::move(policy)), cache_(policy_.options().capacity, 0, policy_) {}
  uint32_t lookup(const policy::GhostLookup& request) noexcept override {
    if (!cache_.status().is_ok()) {
      return 0;
    }
    const GhostCache::Entered entered = cache_.begin(request);
    cache_.end(request.ids.first(entered.cached), request.ordinal, request.session);
    return entered.hits;
  }
  void grow(uint32_t ids) override { cache_.grow(ids); }
  bool resident(uint32_t id) const noexcept override { return cache_.resident(id); }
  policy::GhostCounts counts() const noexcept override { return cache_.counts(); }
  Status status() const override { return cache_.status(); }
  uint64_t digest() const noexcept override { return cache_.digest(); }
  Status save(StateSink& sink) override {
    cache_.finish();
    TROUPE_TRY(cache_.status());
    cache_.save(sink);
    return save_policy(policy_, sink);
  }
  Status load(StateSource& source) override {
    TROUPE_TRY(cache_.load(source));
    return load_policy(policy_, source);
  }

 private:
  EvictionInstance policy_;
  GhostCache cache_;
};

}  // namespace

std::unique_ptr<policy::Ghost> make_ghost(EvictionInstance policy) {
  return std::make_unique<OwnGhost>(std::move(policy));
}

}  // namespace troupe::plugin
