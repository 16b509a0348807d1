// One tier's memory as granules: a slot is a run of them, so blocks of different formats and layer
// groups share a pool. Freed runs are kept by length and reused last in, first out; when none fits,
// neighbours are joined again. Everything is ordered, so equal calls give equal slots.
// Invariant: free + used + quarantined = granules.
#pragma once

#include "runtime/base/status.h"
#include "runtime/core/snapshot.h"

#include <cstdint>
#include <map>
#include <vector>

namespace troupe {

class SlotPool {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFFU;

  explicit SlotPool(uint32_t granules = 0) : granules_(granules), free_(granules) {
    if (granules > 0) {
      extents_.emplace(0, granules);
    }
  }
  /// First granule of a run of `count`, or kNone when no run is long enough. count ≥ 1.
  uint32_t take(uint32_t count);
  void give(uint32_t first, uint32_t count);
  /// The run is not used again.
  void quarantine(uint32_t first, uint32_t count) noexcept {
    (void)first;
    quarantined_ += count;
  }
  uint32_t granules() const noexcept { return granules_; }
  uint32_t free() const noexcept { return free_; }
  uint32_t quarantined() const noexcept { return quarantined_; }
  uint32_t used() const noexcept { return granules_ - free_ - quarantined_; }

  /// Free runs disjoint, inside the pool, and their sum is `free`.
  Status check() const;
  void save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  uint32_t take_from_extents(uint32_t count);
  /// Joins the kept runs with the extents.
  void join();

  uint32_t granules_;
  uint32_t free_;
  uint32_t quarantined_ = 0;
  std::map<uint32_t, uint32_t> extents_;            // first -> count, not adjacent
  std::map<uint32_t, std::vector<uint32_t>> kept_;  // count -> firsts, newest last
};

}  // namespace troupe
