// Object semantics: every block of every request is one access, in order; a hit is a hit wherever
// its neighbours are; a miss inserts, after one eviction when the cache is full. Nothing is pinned.
#include "apps/lab/replay.h"

namespace troupe::lab {
namespace {

class ObjectCache {
 public:
  ObjectCache(const Trace& trace, uint32_t capacity, plugin::EvictionInstance& policy)
      : trace_(trace),
        capacity_(capacity),
        batch_(policy),
        handle_of_(trace.unique, kNone),
        id_of_(capacity, kNone),
        victims_(capacity),
        may_over_evict_((policy.desc().flags & TROUPE_FLAG_MAY_OVER_EVICT) != 0) {
    for (uint32_t i = capacity; i > 0; --i) {
      free_.push_back(i - 1);
    }
    counts_.hits_of.reserve(trace.requests());
  }

  Status request(size_t r) {
    const std::span<const uint32_t> ids = trace_.blocks(r);
    uint32_t* run = batch_.words.take(ids.size());
    uint32_t run_length = 0;
    uint32_t hits = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint32_t handle = handle_of_[ids[i]];
      if (handle != kNone) {
        run[run_length++] = handle;
        ++hits;
        continue;
      }
      add_hits(r, run, run_length);
      run += run_length;
      run_length = 0;
      if (free_.empty()) {
        TROUPE_TRY(evict(ids[i]));
        run = batch_.words.take(ids.size() - i);  // asking handed the old words over
      }
      if (free_.empty()) {
        ++counts_.uncached;
      } else {
        insert(r, ids[i]);
      }
    }
    add_hits(r, run, run_length);
    counts_.hits += hits;
    counts_.accesses += ids.size();
    counts_.hits_of.push_back(hits);
    return batch_.full() ? flush() : Status::ok();
  }
  Status flush() {
    return batch_.flush() ? Status::ok()
                          : Status(Code::kInternal, "the policy failed in on_events");
  }
  Counts take_counts() { return std::move(counts_); }

 private:
  static constexpr uint32_t kNone = TROUPE_NO_BLOCK;

  void add_hits(size_t r, const uint32_t* run, uint32_t count) {
    if (count > 0) {
      batch_.add(TROUPE_EVENT_HIT, r, session(r), run, count).flags = TROUPE_EVENT_IDLE;
    }
  }
  void insert(size_t r, uint32_t id) {
    const uint32_t handle = free_.back();
    free_.pop_back();
    handle_of_[id] = handle;
    id_of_[handle] = id;
    uint32_t* block = batch_.words.take(1);
    uint64_t* key = batch_.keys.take(1);
    *block = handle;
    *key = id;
    troupe_events& e = batch_.add(TROUPE_EVENT_INSERT, r, session(r), block, 1);
    e.keys = key;
    e.flags = TROUPE_EVENT_IDLE;
  }
  Status evict(uint32_t wanted_id) {
    const uint64_t key = wanted_id;
    troupe_victims_call call{};
    call.struct_size = sizeof call;
    call.want = 1;
    call.room = may_over_evict_ ? capacity_ : 1;
    call.victims = victims_.data();
    call.wanted_keys = &key;
    call.wanted_count = 1;
    if (!batch_.ask(call)) {
      return Status(Code::kInternal, "the policy failed in victims");
    }
    for (uint32_t i = 0; i < call.named; ++i) {
      const uint32_t b = victims_[i];
      if (b >= capacity_ || id_of_[b] == kNone) {
        return Status(Code::kInvalidArgument,
                      "wrong victim: block " + std::to_string(b) + " is not resident");
      }
      handle_of_[id_of_[b]] = kNone;
      id_of_[b] = kNone;
      free_.push_back(b);
    }
    counts_.evictions += call.named;
    counts_.over_evicted += call.named > 1 ? call.named - 1 : 0;
    return Status::ok();
  }
  uint64_t session(size_t r) const { return static_cast<uint64_t>(trace_.sessions[r]); }

  const Trace& trace_;
  uint32_t capacity_;
  plugin::EventBatch batch_;
  std::vector<uint32_t> handle_of_;
  std::vector<uint32_t> id_of_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> victims_;
  bool may_over_evict_;
  Counts counts_;
};

}  // namespace

Expected<Counts> replay_object(const Trace& trace, uint32_t capacity,
                               plugin::EvictionInstance& policy) {
  ObjectCache cache(trace, capacity, policy);
  for (size_t r = 0; r < trace.requests(); ++r) {
    TROUPE_TRY(cache.request(r));
  }
  TROUPE_TRY(cache.flush());
  return cache.take_counts();
}

}  // namespace troupe::lab
