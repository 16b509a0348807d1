// Events on their way to a policy: written once, handed over in one call per request or fewer, with
// the question when there is one.
#pragma once

#include "policies/abi/eviction.h"
#include "runtime/plugin/instance.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::plugin {

/// Handles and the like that events point into; grows in chunks, so that pointers stay valid.
template <class T>
class Arena {
 public:
  /// Room for `count` elements, valid until `reset`.
  T* take(size_t count) {
    while (at_ < chunks_.size() && used_ + count > chunks_[at_].size) {
      ++at_;
      used_ = 0;
    }
    if (at_ == chunks_.size()) {
      const size_t size = count > kChunk ? count : kChunk;
      chunks_.push_back(Chunk{std::make_unique<T[]>(size), size});
      used_ = 0;
    }
    T* out = chunks_[at_].items.get() + used_;
    used_ += count;
    return out;
  }
  void reset() noexcept {
    at_ = 0;
    used_ = 0;
  }

 private:
  static constexpr size_t kChunk = 1 << 14;
  struct Chunk {
    std::unique_ptr<T[]> items;
    size_t size;
  };
  std::vector<Chunk> chunks_;
  size_t at_ = 0;
  size_t used_ = 0;
};

class EventBatch {
 public:
  explicit EventBatch(const EvictionInstance& policy)
      : table_(&policy.table()), self_(policy.self()) {
    events_.reserve(kEventsMax);
  }

  troupe_events& add(uint32_t kind, uint64_t ordinal, uint64_t session, const uint32_t* blocks,
                     uint32_t count) {
    troupe_events& e = events_.emplace_back();
    e = troupe_events{};
    e.struct_size = sizeof e;
    e.kind = kind;
    e.ordinal = ordinal;
    e.session = session;
    e.blocks = blocks;
    e.count = count;
    return e;
  }
  bool full() const noexcept { return events_.size() + 4 >= kEventsMax; }
  /// Hands over what has gathered. False: the policy failed.
  bool flush() {
    const bool ok = events_.empty() || table_->on_events(self_, events_.data(), events_.size(),
                                                         sizeof(troupe_events)) == TROUPE_OK;
    clear();
    return ok;
  }
  /// Asks, handing over the events first in the same call. False: the policy failed.
  bool ask(troupe_victims_call& call) {
    call.events = events_.data();
    call.events_count = events_.size();
    call.events_stride = sizeof(troupe_events);
    const bool ok = table_->victims(self_, &call) == TROUPE_OK && call.named <= call.room;
    clear();
    return ok;
  }

  Arena<uint32_t> words;
  Arena<uint64_t> keys;

 private:
  static constexpr size_t kEventsMax = 512;
  void clear() noexcept {
    events_.clear();
    words.reset();
    keys.reset();
  }
  const troupe_eviction* table_;
  void* self_;
  std::vector<troupe_events> events_;
};

}  // namespace troupe::plugin
