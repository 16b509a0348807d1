// Replays a trace against one policy, through the C ABI alone: under prefix semantics in a
// plugin::GhostCache, as understudies do; under object semantics (object_replay.cc) every block is
// an access of its own and a miss inserts. A wrong answer ends the run with the reason.
#pragma once

#include "apps/lab/trace_data.h"
#include "runtime/plugin/ghost_cache.h"

#include <cstdint>
#include <vector>

namespace troupe::lab {

struct Counts : policy::GhostCounts {
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
  void finish() { cache_.finish(); }
  Counts counts() const;
  const Status& status() const noexcept { return cache_.status(); }

 private:
  uint64_t session(size_t r) const { return static_cast<uint64_t>(trace_.sessions[r]); }

  const Trace& trace_;
  plugin::GhostCache cache_;
  std::vector<uint32_t> hits_of_;
  std::vector<uint32_t> cached_of_;  // by request: how long its pinned path is
};

/// Serial replay in file order.
Expected<Counts> replay_prefix(const Trace& trace, uint32_t capacity,
                               plugin::EvictionInstance& policy);
Expected<Counts> replay_object(const Trace& trace, uint32_t capacity,
                               plugin::EvictionInstance& policy);

}  // namespace troupe::lab
