// A cache of names without bytes, with a policy of its own behind the C ABI: what would have been
// hit. The lab replays traces through it, an understudy the live lookups; so both count alike.
// Prefix semantics: a request hits its leading run of resident blocks, pins them, and caches the
// rest in order while the policy gives up blocks that are unpinned and have no resident child.
// Every answer is checked; a wrong one ends the cache with the reason.
#pragma once

#include "runtime/core/policy.h"
#include "runtime/plugin/event_batch.h"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::plugin {

class GhostCache {
 public:
  /// `policy` must outlive the cache and have been made for `capacity` blocks; `ids`: names that
  /// come are below (grow() raises it).
  GhostCache(uint32_t capacity, uint32_t ids, EvictionInstance& policy);

  struct Entered {
    uint32_t hits = 0;
    uint32_t cached = 0;  // leading blocks that are resident now: end() gives their pins back
  };
  /// Admits a request: match, pin, evict, insert.
  Entered begin(const policy::GhostLookup& request);
  /// The request's pins end, deepest first. `ids`: its leading `cached` ones.
  void end(std::span<const uint32_t> ids, uint64_t ordinal, uint64_t session);
  /// Hands over what is left; call before reading the policy's state.
  void finish();
  void grow(uint32_t ids) { handle_of_.resize(ids, kNone); }
  bool resident(uint32_t id) const noexcept {
    return id < handle_of_.size() && handle_of_[id] != kNone;
  }
  const policy::GhostCounts& counts() const noexcept { return counts_; }
  const Status& status() const noexcept { return status_; }
  uint64_t digest() const noexcept;
  /// Only between requests, after finish().
  void save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  static constexpr uint32_t kNone = TROUPE_NO_BLOCK;
  uint32_t match(std::span<const uint32_t> ids);
  uint32_t make_room(const policy::GhostLookup& request, uint32_t first, uint32_t wanted);
  bool give_up(uint32_t block);
  void insert(const policy::GhostLookup& request, uint32_t first, uint32_t count);

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
  policy::GhostCounts counts_;
  Status status_;
};

/// A GhostCache that owns its policy, as actors see it.
std::unique_ptr<policy::Ghost> make_ghost(EvictionInstance policy);

}  // namespace troupe::plugin
