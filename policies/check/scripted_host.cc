#include "policies/check/scripted_host.h"

#include <algorithm>

namespace troupe::check {
namespace {

constexpr uint64_t kSessions = 16;
constexpr size_t kRunningMax = 4;
constexpr size_t kTipsMax = 64;

Status wrong(uint32_t block, const char* what) {
  return Status(Code::kInvalidArgument, "victim " + std::to_string(block) + " " + what);
}

}  // namespace

ScriptedHost::ScriptedHost(plugin::EvictionInstance& policy, uint32_t capacity, uint64_t seed)
    : policy_(&policy), capacity_(capacity), rng_(seed), blocks_(capacity) {
  for (uint32_t b = capacity; b > 0; --b) {
    free_.push_back(b - 1);
  }
}

Status ScriptedHost::tell(uint32_t kind, const std::vector<uint32_t>& blocks) {
  troupe_events e{};
  e.struct_size = sizeof e;
  e.kind = kind;
  e.ordinal = ordinal_;
  e.session = ordinal_ % kSessions;
  e.blocks = blocks.data();
  e.count = static_cast<uint32_t>(blocks.size());
  const int32_t code = policy_->table().on_events(policy_->self(), &e, 1, sizeof e);
  return code == TROUPE_OK ? Status::ok()
                           : Status(Code::kInternal, "on_events of kind " + std::to_string(kind) +
                                                         " gave " + std::to_string(code));
}

uint32_t ScriptedHost::evictable() const {
  // Everything under which nobody runs may go, since a parent follows its last child.
  uint32_t n = 0;
  for (const Block& b : blocks_) {
    n += b.resident && b.uses == 0 ? 1 : 0;
  }
  return n;
}

Status ScriptedHost::take(uint32_t block) {
  if (block >= capacity_) {
    return wrong(block, "is no handle");
  }
  Block& b = blocks_[block];
  if (!b.resident) {
    return wrong(block, "is not resident, or was named twice");
  }
  if (b.uses != 0) {
    return wrong(block, "is in use");
  }
  if (b.children != 0) {
    return wrong(block, "has a resident child");
  }
  b.resident = false;
  if (b.parent != kNone) {
    --blocks_[b.parent].children;
  }
  free_.push_back(block);
  tips_.erase(std::remove(tips_.begin(), tips_.end(), block), tips_.end());
  return Status::ok();
}

Status ScriptedHost::make_room(uint32_t want, uint32_t& made, const std::vector<uint64_t>& keys) {
  const bool runs = (policy_->desc().flags & TROUPE_FLAG_MAY_OVER_EVICT) != 0;
  std::vector<uint32_t> victims(runs ? capacity_ : want);
  std::vector<int64_t> scores(victims.size());
  const uint32_t could = std::min(want, evictable());
  troupe_victims_call call{};
  call.struct_size = sizeof call;
  call.want = want;
  call.room = static_cast<uint32_t>(victims.size());
  call.victims = victims.data();
  call.scores = scores.data();
  call.wanted_keys = keys.data();
  call.wanted_count = static_cast<uint32_t>(keys.size());
  call.free_blocks = static_cast<uint32_t>(free_.size());
  const int32_t code = policy_->table().victims(policy_->self(), &call);
  if (code != TROUPE_OK) {
    return Status(Code::kInternal, "victims gave " + std::to_string(code));
  }
  if (call.named > call.room) {
    return Status(Code::kInvalidArgument, std::to_string(call.named) + " victims named, room was " +
                                              std::to_string(call.room));
  }
  if (call.named < could) {
    return Status(Code::kInvalidArgument, std::to_string(call.named) + " victims named, " +
                                              std::to_string(could) + " wanted and there");
  }
  std::vector<uint32_t> gone;
  std::vector<uint32_t> stay;
  for (uint32_t i = 0; i < call.named; ++i) {
    answers_ = mix64(answers_ ^ mix64(victims[i] + 1));
    // Refusing one refuses all that come after it, or a parent might go before its child.
    if (!stay.empty() || (refuse_ && rng_.chance(1, 16))) {
      stay.push_back(victims[i]);
      continue;
    }
    TROUPE_TRY(take(victims[i]));
    gone.push_back(victims[i]);
  }
  made = static_cast<uint32_t>(gone.size());
  TROUPE_TRY(tell(TROUPE_EVENT_REMOVE, gone));
  std::reverse(stay.begin(), stay.end());  // parents first, as they come back
  return stay.empty() ? Status::ok() : tell(TROUPE_EVENT_REFUSED, stay);
}

Status ScriptedHost::insert(const std::vector<uint64_t>& keys, uint32_t count,
                            std::vector<uint32_t>& path) {
  std::vector<uint32_t> handles(count);
  std::vector<uint32_t> parents(count);
  std::vector<uint32_t> depths(count);
  std::vector<uint64_t> names(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t handle = free_.back();
    free_.pop_back();
    const uint32_t parent = path.empty() ? kNone : path.back();
    blocks_[handle] = Block{keys[i], parent, static_cast<uint32_t>(path.size()), 1, 0, true};
    if (parent != kNone) {
      ++blocks_[parent].children;
    }
    const uint32_t to = count - 1 - i;
    handles[to] = handle;
    parents[to] = parent;
    depths[to] = static_cast<uint32_t>(path.size());
    names[to] = keys[i];
    path.push_back(handle);
  }
  troupe_events e{};
  e.struct_size = sizeof e;
  e.kind = TROUPE_EVENT_INSERT;
  e.ordinal = ordinal_;
  e.session = ordinal_ % kSessions;
  e.blocks = handles.data();
  e.parents = parents.data();
  e.depths = depths.data();
  e.keys = names.data();
  e.count = count;
  const int32_t code = policy_->table().on_events(policy_->self(), &e, 1, sizeof e);
  return code == TROUPE_OK ? Status::ok()
                           : Status(Code::kInternal, "insert gave " + std::to_string(code));
}

Status ScriptedHost::begin() {
  std::vector<uint32_t> path;
  if (!tips_.empty() && rng_.chance(3, 4)) {
    for (uint32_t b = tips_[rng_.below(tips_.size())]; b != kNone; b = blocks_[b].parent) {
      path.push_back(b);
    }
    if (rng_.chance(1, 3)) {  // a match that ends inside: only the upper part
      path.erase(path.begin(), path.begin() + static_cast<ptrdiff_t>(path.size() / 2));
    }
    for (const uint32_t b : path) {
      ++blocks_[b].uses;
    }
    TROUPE_TRY(tell(TROUPE_EVENT_HIT, path));
    std::reverse(path.begin(), path.end());
  }
  const auto fresh = static_cast<uint32_t>(1 + rng_.below(std::max<uint64_t>(capacity_ / 8, 1)));
  std::vector<uint64_t> keys(fresh);
  for (uint64_t& key : keys) {  // one in four has been here before
    key = rng_.chance(1, 4) ? 1 + rng_.below(next_key_) : next_key_++;
  }
  if (fresh > free_.size()) {
    uint32_t made = 0;
    TROUPE_TRY(make_room(fresh - static_cast<uint32_t>(free_.size()), made, keys));
  }
  const auto room = static_cast<uint32_t>(std::min<size_t>(fresh, free_.size()));
  if (room > 0) {
    TROUPE_TRY(insert(keys, room, path));
    tips_.push_back(path.back());
    if (tips_.size() > kTipsMax) {
      tips_.erase(tips_.begin());
    }
  }
  running_.push_back(std::move(path));
  return Status::ok();
}

Status ScriptedHost::end(size_t running) {
  std::vector<uint32_t> path = std::move(running_[running]);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(running));
  std::reverse(path.begin(), path.end());
  for (const uint32_t b : path) {
    --blocks_[b].uses;
  }
  return tell(TROUPE_EVENT_RELEASE, path);
}

Status ScriptedHost::step() {
  ++ordinal_;
  TROUPE_TRY(begin());
  while (running_.size() > kRunningMax || (!running_.empty() && rng_.chance(1, 2))) {
    TROUPE_TRY(end(static_cast<size_t>(rng_.below(running_.size()))));
  }
  if (rng_.chance(1, 32)) {
    const uint32_t kind = static_cast<uint32_t>(TROUPE_EVENT_PAUSE + rng_.below(3));
    TROUPE_TRY(tell(kind, {}));
  }
  return Status::ok();
}

Status ScriptedHost::run(uint32_t steps) {
  for (uint32_t i = 0; i < steps; ++i) {
    const Status status = step();
    if (!status) {
      return Status(status.code(), "step " + std::to_string(i) + ": " + status.text());
    }
  }
  return Status::ok();
}

Status ScriptedHost::drain() {
  while (!running_.empty()) {
    TROUPE_TRY(end(running_.size() - 1));
  }
  refuse_ = false;
  const uint32_t all = resident();
  if (all == 0) {
    return Status::ok();
  }
  uint32_t made = 0;
  TROUPE_TRY(make_room(all, made, {}));
  return made == all
             ? Status::ok()
             : Status(Code::kInvalidArgument, std::to_string(made) + " of " + std::to_string(all) +
                                                  " idle blocks given up when all were asked for");
}

}  // namespace troupe::check
