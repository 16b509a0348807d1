#include "actors/allocator/slot_pool.h"

#include <string>

namespace troupe {

uint32_t SlotPool::take(uint32_t count) {
  if (count > free_) {
    return kNone;
  }
  const auto kept = kept_.find(count);
  uint32_t first = kNone;
  if (kept != kept_.end() && !kept->second.empty()) {
    first = kept->second.back();
    kept->second.pop_back();
  } else {
    first = take_from_extents(count);
    if (first == kNone) {
      join();
      first = take_from_extents(count);
    }
  }
  free_ -= first == kNone ? 0 : count;
  return first;
}

uint32_t SlotPool::take_from_extents(uint32_t count) {
  for (auto extent = extents_.begin(); extent != extents_.end(); ++extent) {
    if (extent->second < count) {
      continue;
    }
    const uint32_t first = extent->first;
    const uint32_t left = extent->second - count;
    auto next = extents_.erase(extent);
    if (left > 0) {
      extents_.emplace_hint(next, first + count, left);
    }
    return first;
  }
  return kNone;
}

void SlotPool::give(uint32_t first, uint32_t count) {
  kept_[count].push_back(first);
  free_ += count;
}

void SlotPool::join() {
  std::map<uint32_t, uint32_t> all = std::move(extents_);
  for (auto& [count, firsts] : kept_) {
    for (const uint32_t first : firsts) {
      all.emplace(first, count);
    }
    firsts.clear();
  }
  extents_.clear();
  for (const auto& [first, count] : all) {
    if (!extents_.empty() && extents_.rbegin()->first + extents_.rbegin()->second == first) {
      extents_.rbegin()->second += count;
    } else {
      extents_.emplace_hint(extents_.end(), first, count);
    }
  }
}

Status SlotPool::check() const {
  std::map<uint32_t, uint32_t> all = extents_;
  uint64_t sum = 0;
  for (const auto& [count, firsts] : kept_) {
    for (const uint32_t first : firsts) {
      if (!all.emplace(first, count).second) {
        return Status(Code::kInternal, "granule " + std::to_string(first) + " is free twice");
      }
    }
  }
  uint64_t end = 0;
  for (const auto& [first, count] : all) {
    if (first < end) {
      return Status(Code::kInternal, "free runs overlap at granule " + std::to_string(first));
    }
    end = static_cast<uint64_t>(first) + count;
    sum += count;
  }
  if (end > granules_ || sum != free_ || static_cast<uint64_t>(free_) + quarantined_ > granules_) {
    return Status(Code::kInternal, "free runs sum to " + std::to_string(sum) + " granules, " +
                                       std::to_string(free_) + " of " + std::to_string(granules_) +
                                       " are counted");
  }
  return Status::ok();
}

void SlotPool::save(StateSink& sink) const {
  sink.u32(granules_);
  sink.u32(free_);
  sink.u32(quarantined_);
  sink.u64(extents_.size());
  for (const auto& [first, count] : extents_) {
    sink.u32(first);
    sink.u32(count);
  }
  sink.u64(kept_.size());
  for (const auto& [count, firsts] : kept_) {
    sink.u32(count);
    sink.array(firsts);
  }
}

Status SlotPool::load(StateSource& source) {
  if (const uint32_t granules = source.u32(); granules != granules_) {
    return Status(Code::kFailedPrecondition, "snapshot of " + std::to_string(granules) +
                                                 " granules, the pool has " +
                                                 std::to_string(granules_));
  }
  free_ = source.u32();
  quarantined_ = source.u32();
  extents_.clear();
  kept_.clear();
  const uint64_t extents = source.u64();
  for (uint64_t i = 0; i < extents && source.status(); ++i) {
    const uint32_t first = source.u32();
    extents_.emplace(first, source.u32());
  }
  const uint64_t kept = source.u64();
  for (uint64_t i = 0; i < kept && source.status(); ++i) {
    const uint32_t count = source.u32();
    kept_[count] = source.array<uint32_t>();
  }
  TROUPE_TRY(source.status());
  return check();
}

}  // namespace troupe
