#include "actors/policy_slot/block_mirror.h"

#include "runtime/base/digest.h"

#include <algorithm>

namespace troupe {

BlockMirror::BlockMirror(uint32_t capacity)
    : uses_(capacity, 0),
      children_(capacity, 0),
      parents_(capacity, kNone),
      resident_(capacity, 0),
      depth_(capacity, 0),
      tokens_(capacity, 0),
      tenant_(capacity, 0),
      keys_(capacity, 0),
      hits_(capacity, 0),
      size_(capacity, 0),
      newer_(capacity + 1, capacity),
      older_(capacity + 1, capacity),
      mark_(capacity) {}

void BlockMirror::unlink(uint32_t block) noexcept {
  if (mark_ == block) {
    mark_ = newer_[block];
  }
  newer_[older_[block]] = newer_[block];
  older_[newer_[block]] = older_[block];
}

void BlockMirror::append(uint32_t block) noexcept {
  const uint32_t end = capacity();
  const uint32_t last = older_[end];
  newer_[last] = block;
  older_[block] = last;
  newer_[block] = end;
  older_[end] = block;
  if (mark_ == end) {
    mark_ = block;
  }
}

uint8_t BlockMirror::size_class(uint64_t bytes) noexcept {
  const auto found = std::find(sizes_.begin(), sizes_.end(), bytes);
  if (found != sizes_.end()) {
    return static_cast<uint8_t>(found - sizes_.begin());
  }
  if (sizes_.size() == 256) {
    return 255;  // more sizes than a configuration has block classes: the last one stands for all
  }
  sizes_.push_back(bytes);
  return static_cast<uint8_t>(sizes_.size() - 1);
}

bool BlockMirror::insert(const policy::Events& events, size_t i) noexcept {
  const uint32_t block = events.blocks[i];
  if (resident_[block] != 0) {
    return false;
  }
  const bool in_use = events.kind != policy::Event::kDemoted;
  resident_[block] = 1;
  ++resident_count_;
  parents_[block] = i < events.parents.size() ? events.parents[i] : kNone;
  depth_[block] = i < events.depths.size() ? events.depths[i] : 0;
  tokens_[block] = i < events.tokens.size() ? events.tokens[i] : 0;
  keys_[block] = i < events.keys.size() ? events.keys[i] : 0;
  tenant_[block] = events.tenant;
  hits_[block] = 0;
  uses_[block] = in_use ? 1 : 0;
  idle_ += in_use ? 0 : 1;
  if (parents_[block] != kNone && known(parents_[block])) {
    ++children_[parents_[block]];
  }
  return true;
}

void BlockMirror::remove(uint32_t block) noexcept {
  if (resident_[block] == 0) {
    return;
  }
  resident_[block] = 0;
  --resident_count_;
  idle_ -= uses_[block] == 0 ? 1 : 0;
  uses_[block] = 0;
  unlink(block);
  if (parents_[block] != kNone && known(parents_[block])) {
    --children_[parents_[block]];
  }
  parents_[block] = kNone;
}

void BlockMirror::apply(const policy::Events& events) noexcept {
  using policy::Event;
  const bool insert_kind = events.kind == Event::kInsert || events.kind == Event::kPromoted ||
                           events.kind == Event::kDemoted;
  const uint8_t size = insert_kind ? size_class(events.bytes) : 0;
  fresh_.clear();
  for (size_t i = 0; i < events.blocks.size(); ++i) {
    const uint32_t block = events.blocks[i];
    if (!known(block)) {
      continue;
    }
    if (insert_kind) {
      if (insert(events, i)) {
        size_[block] = size;
        fresh_.push_back(block);
      }
    } else if (events.kind == Event::kHit && resident_[block] != 0) {
      idle_ -= uses_[block] == 0 ? 1 : 0;
      ++uses_[block];
      hits_[block] = static_cast<uint8_t>(hits_[block] + (hits_[block] < 255 ? 1 : 0));
      fresh_.push_back(block);
    } else if (events.kind == Event::kRelease && uses_[block] != 0) {
      --uses_[block];
      idle_ += uses_[block] == 0 ? 1 : 0;
      renew(block);
    } else if (events.kind == Event::kRemove) {
      remove(block);
    }
  }
  // Inserts and hits come root first, releases deepest first: the deeper is always the older.
  for (size_t i = fresh_.size(); i > 0; --i) {
    if (events.kind == Event::kHit) {
      renew(fresh_[i - 1]);
    } else {
      append(fresh_[i - 1]);
    }
  }
}

Status BlockMirror::save(StateSink& sink) const {
  for (const std::vector<uint32_t>* rows :
       {&uses_, &children_, &parents_, &depth_, &tokens_, &tenant_, &newer_}) {
    sink.array(*rows);
  }
  sink.array(resident_);
  sink.array(hits_);
  sink.array(size_);
  sink.array(keys_);
  sink.array(sizes_);
  return Status::ok();
}

Status BlockMirror::load(StateSource& source) {
  const size_t capacity = resident_.size();
  for (std::vector<uint32_t>* rows :
       {&uses_, &children_, &parents_, &depth_, &tokens_, &tenant_, &newer_}) {
    *rows = source.array<uint32_t>();
  }
  resident_ = source.array<uint8_t>();
  hits_ = source.array<uint8_t>();
  size_ = source.array<uint8_t>();
  keys_ = source.array<uint64_t>();
  sizes_ = source.array<uint64_t>();
  TROUPE_TRY(source.status());
  for (const size_t size : {uses_.size(), children_.size(), parents_.size(), depth_.size(),
                            tokens_.size(), tenant_.size(), newer_.size() - 1, resident_.size(),
                            hits_.size(), size_.size(), keys_.size()}) {
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
    if (size_[i] >= sizes_.size() || newer_[i] > capacity) {
      return Status(Code::kCorrupt, "block mirror: row " + std::to_string(i) + " is out of range");
    }
  }
  uint32_t at = static_cast<uint32_t>(capacity);
  for (uint64_t n = 0; n <= resident_count_; ++n) {
    if (newer_[at] > capacity || (newer_[at] != capacity && resident_[newer_[at]] == 0)) {
      return Status(Code::kCorrupt,
                    "block mirror: the list by recency names block " + std::to_string(newer_[at]));
    }
    older_[newer_[at]] = at;
    at = newer_[at];
  }
  mark_ = static_cast<uint32_t>(capacity);
  return check();
}

Status BlockMirror::check() const {
  uint64_t listed = 0;
  uint64_t children = 0;
  uint64_t with_parent = 0;
  for (uint32_t block = oldest(); block != kNone && listed <= resident_count_;
       block = newer_than(block)) {
    ++listed;
  }
  for (uint32_t block = 0; block < capacity(); ++block) {
    children += children_[block];
    with_parent += resident_[block] != 0 && parents_[block] != kNone ? 1 : 0;
  }
  if (listed != resident_count_) {
    return Status(Code::kInternal, "block mirror: " + std::to_string(listed) + " blocks listed, " +
                                       std::to_string(resident_count_) + " are resident");
  }
  return children == with_parent
             ? Status::ok()
             : Status(Code::kInternal, "block mirror: " + std::to_string(children) +
                                           " children counted, " + std::to_string(with_parent) +
                                           " blocks have a parent");
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
