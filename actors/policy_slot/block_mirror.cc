#include "actors/policy_slot/block_mirror.h"

#include <algorithm>

#include "runtime/base/digest.h"

namespace troupe {

void BlockMirror::insert(uint32_t block, uint32_t parent, uint32_t depth, bool in_use) noexcept {
  if (resident_[block] != 0) {
    return;
  }
  resident_[block] = 1;
  ++resident_count_;
  parents_[block] = parent;
  depth_[block] = depth;
  uses_[block] = in_use ? 1 : 0;
  idle_ += in_use ? 0 : 1;
  last_use_[block] = batch_;
  if (parent != kNone && known(parent)) {
    ++children_[parent];
  }
}

void BlockMirror::remove(uint32_t block) noexcept {
  if (resident_[block] == 0) {
    return;
  }
  resident_[block] = 0;
  --resident_count_;
  idle_ -= uses_[block] == 0 ? 1 : 0;
  uses_[block] = 0;
  if (parents_[block] != kNone && known(parents_[block])) {
    --children_[parents_[block]];
  }
  parents_[block] = kNone;
}

void BlockMirror::apply(const policy::Events& events) noexcept {
  using policy::Event;
  ++batch_;
  const bool insert_kind = events.kind == Event::kInsert || events.kind == Event::kPromoted ||
                           events.kind == Event::kDemoted;
  for (size_t i = 0; i < events.blocks.size(); ++i) {
    const uint32_t block = events.blocks[i];
    if (!known(block)) {
      continue;
    }
    if (insert_kind) {
      const uint32_t parent = i < events.parents.size() ? events.parents[i] : kNone;
      const uint32_t depth = i < events.depths.size() ? events.depths[i] : 0;
      insert(block, parent, depth, events.kind != Event::kDemoted);
    } else if (events.kind == Event::kHit && resident_[block] != 0) {
      idle_ -= uses_[block] == 0 ? 1 : 0;
      ++uses_[block];
      last_use_[block] = batch_;
    } else if (events.kind == Event::kRelease && uses_[block] != 0) {
      --uses_[block];
      idle_ += uses_[block] == 0 ? 1 : 0;
      last_use_[block] = batch_;
    } else if (events.kind == Event::kRemove) {
      remove(block);
    }
  }
}

std::vector<uint32_t> BlockMirror::by_recency() const {
  std::vector<uint32_t> blocks;
  blocks.reserve(resident_count_);
  for (uint32_t block = 0; block < capacity(); ++block) {
    if (resident_[block] != 0) {
      blocks.push_back(block);
    }
  }
  std::sort(blocks.begin(), blocks.end(), [&](uint32_t a, uint32_t b) {
    if (last_use_[a] != last_use_[b]) {
      return last_use_[a] < last_use_[b];
    }
    return depth_[a] != depth_[b] ? depth_[a] > depth_[b] : a < b;
  });
  return blocks;
}

Status BlockMirror::save(StateSink& sink) const {
  sink.array(uses_);
  sink.array(children_);
  sink.array(parents_);
  sink.array(resident_);
  sink.array(last_use_);
  sink.array(depth_);
  sink.u64(batch_);
  return Status::ok();
}

Status BlockMirror::load(StateSource& source) {
  const size_t capacity = resident_.size();
  uses_ = source.array<uint32_t>();
  children_ = source.array<uint32_t>();
  parents_ = source.array<uint32_t>();
  resident_ = source.array<uint8_t>();
  last_use_ = source.array<uint64_t>();
  depth_ = source.array<uint32_t>();
  batch_ = source.u64();
  TROUPE_TRY(source.status());
  for (const size_t size : {uses_.size(), children_.size(), parents_.size(), resident_.size(),
                            last_use_.size(), depth_.size()}) {
    if (size != capacity) {
      return Status(Code::kCorrupt, "block mirror: " + std::to_string(size) +
                                        " rows, the capacity is " + std::to_string(capacity));
    }
  }
  resident_count_ = 0;
  idle_ = 0;
  for (size_t i = 0; i < capacity; ++i) {
    resident_count_ += resident_[i];
    idle_ += resident_[i] != 0 && uses_[i] == 0 ? 1 : 0;
  }
  return Status::ok();
}

uint64_t BlockMirror::digest() const noexcept {
  Digest d;
  for (uint32_t block = 0; block < capacity(); ++block) {
    if (resident_[block] != 0) {
      d.add(block).add(uses_[block]).add(children_[block]).add(parents_[block]);
    }
  }
  return d.value();
}

}  // namespace troupe
