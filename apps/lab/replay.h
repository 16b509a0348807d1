// Replays a trace against one policy, through the C ABI alone.
// Prefix semantics: a request hits its leading run of resident blocks, pins them, and caches the
// rest in order while the policy gives up blocks that are unpinned and have no resident child.
// Object semantics (object_replay.cc): every block is an access of its own; a miss inserts.
// Every answer is checked; a wrong one ends the run with the reason.
#pragma once

#include "apps/lab/event_batch.h"
#include "apps/lab/trace_data.h"

#include <cstdint>
#include <vector>

namespace troupe::lab {

struct Counts {
  uint64_t accesses = 0;
  uint64_t hits = 0;
  uint64_t evictions = 0;
  uint64_t uncached = 0;          // blocks that found no room
  uint64_t over_evicted = 0;      // beyond what was asked
  std::vector<uint32_t> hits_of;  // of each request
};

/// One cache with its policy under prefix semantics; requests may overlap (begin … end).
class PrefixCache {
 public:
  PrefixCache(const Trace& trace, uint32_t capacity, plugin::EvictionInstance& policy);
  /// Admits request `r` as number `ordinal`: match, pin, evict, insert. Returns its hits.
  uint32_t begin(size_t r, uint64_t ordinal);
  /// The request's pins end, deepest first.
  void end(size_t r, uint64_t ordinal);
  /// Hands over what is left; call before reading the policy's state.
  void finish();
  const Counts& counts() const noexcept { return counts_; }
  const Status& status() const noexcept { return status_; }

 private:
  static constexpr uint32_t kNone = TROUPE_NO_BLOCK;
  uint32_t match(std::span<const uint32_t> ids);
  uint32_t make_room(std::span<const uint32_t> missing);
  bool give_up(uint32_t block);
  void insert(std::span<const uint32_t> ids, uint32_t first, uint32_t count, uint64_t ordinal,
              uint64_t session);

  const Trace& trace_;
  uint32_t capacity_;
  EventBatch batch_;
  bool may_over_evict_;
  std::vector<uint32_t> handle_of_;  // by id
  std::vector<uint32_t> id_of_;      // by handle, and so on
  std::vector<uint32_t> uses_;
  std::vector<uint32_t> children_;
  std::vector<uint32_t> parent_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> path_;  // of the request at hand
  std::vector<uint32_t> victims_;
  std::vector<uint32_t> cached_of_;  // by request: how long its pinned path is
  Counts counts_;
  Status status_;
};

/// Serial replay in file order.
Expected<Counts> replay_prefix(const Trace& trace, uint32_t capacity,
                               plugin::EvictionInstance& policy);
Expected<Counts> replay_object(const Trace& trace, uint32_t capacity,
                               plugin::EvictionInstance& policy);

}  // namespace troupe::lab
