#include "actors/policy_slot/lru.h"

#include "runtime/base/digest.h"

namespace troupe {

LruPolicy::LruPolicy(uint32_t capacity)
    : capacity_(capacity), next_(capacity + 1UL, kNone), prev_(capacity + 1UL, kNone),
      gone_children_(capacity, 0) {
  next_[capacity_] = capacity_;
  prev_[capacity_] = capacity_;
}

void LruPolicy::unlink(uint32_t block) noexcept {
  next_[prev_[block]] = next_[block];
  prev_[next_[block]] = prev_[block];
  next_[block] = kNone;
  prev_[block] = kNone;
}

void LruPolicy::append(uint32_t block) noexcept {
  prev_[block] = prev_[capacity_];
  next_[block] = capacity_;
  next_[prev_[capacity_]] = block;
  prev_[capacity_] = block;
}

void LruPolicy::on_events(const policy::Events& events) noexcept {
  using policy::Event;
  switch (events.kind) {
    case Event::kHit:
    case Event::kRemove:
      for (const uint32_t block : events.blocks) {
        if (linked(block)) {
          unlink(block);
        }
      }
      break;
    case Event::kRefused:  // it is leased for a moment: others first, or it would be named for ever
    case Event::kRelease:
    case Event::kDemoted:
      for (const uint32_t block : events.blocks) {
        if (linked(block)) {
          unlink(block);
        }
        append(block);
      }
      break;
    default: break;  // an inserted block is in use until its release
  }
}

void LruPolicy::victims(uint32_t wanted, const policy::HostView& view,
                        std::vector<uint32_t>& victims, std::vector<int64_t>& scores) noexcept {
  (void)scores;  // the order says it all
  const size_t first = victims.size();
  for (uint32_t block = next_[capacity_]; block != capacity_ && victims.size() - first < wanted;
       block = next_[block]) {
    if (view.uses[block] != 0 || view.children[block] != gone_children_[block]) {
      continue;
    }
    victims.push_back(block);
    const uint32_t parent = view.parents[block];
    if (parent != kNone) {
      ++gone_children_[parent];
    }
  }
  for (size_t i = first; i < victims.size(); ++i) {
    const uint32_t parent = view.parents[victims[i]];
    if (parent != kNone) {
      gone_children_[parent] = 0;
    }
  }
}

Status LruPolicy::save(StateSink& sink) const {
  sink.u32(1);
  std::vector<uint32_t> order;
  for (uint32_t block = next_[capacity_]; block != capacity_; block = next_[block]) {
    order.push_back(block);
  }
  sink.array(order);
  return Status::ok();
}

Status LruPolicy::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported, "lru: state schema " + std::to_string(schema) + ", not 1");
  }
  const auto order = source.array<uint32_t>();
  TROUPE_TRY(source.status());
  for (const uint32_t block : order) {
    if (block >= capacity_ || linked(block)) {
      return Status(Code::kCorrupt, "lru: block " + std::to_string(block) + " of capacity " +
                                        std::to_string(capacity_) + " is unknown or named twice");
    }
    append(block);
  }
  return Status::ok();
}

uint64_t LruPolicy::digest() const noexcept {
  Digest d;
  for (uint32_t block = next_[capacity_]; block != capacity_; block = next_[block]) {
    d.add(block);
  }
  return d.value();
}

}  // namespace troupe
