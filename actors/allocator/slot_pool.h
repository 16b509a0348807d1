// One tier's memory as granules: a slot is a run of them, so blocks of different formats and layer
// groups share a pool. Freed slots are stacked by length and reused last in, first out. Below the
// stacks lies a map of free granules, one bit each, in which neighbours join by themselves; a stack
// that runs empty is refilled from it in batches, which also keeps slots of one length together.
// Everything is ordered, so equal calls give equal slots.
// Cost: a constant number of steps a call, amortised over the batch; a slot goes to the map at most
// once for each time it was given back.
// Invariant: free + used + quarantined = granules; a free granule is in the map or in one stack.
#pragma once

#include "runtime/base/status.h"
#include "runtime/core/snapshot.h"

#include <cstdint>
#include <vector>

namespace troupe {

class SlotPool {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFFU;

  explicit SlotPool(uint32_t granules = 0);
  /// First granule of a run of `count`, or kNone when no run is long enough. count ≥ 1.
  uint32_t take(uint32_t count);
  void give(uint32_t first, uint32_t count);
  /// The run is not used again.
  void quarantine(uint32_t first, uint32_t count) noexcept;
  uint32_t granules() const noexcept { return granules_; }
  uint32_t free() const noexcept { return free_; }
  uint32_t quarantined() const noexcept { return quarantined_; }
  uint32_t used() const noexcept { return granules_ - free_ - quarantined_; }

  /// Free runs disjoint, inside the pool, and their sum is `free`.
  Status check() const;
  void save(StateSink& sink) const;
  Status load(StateSource& source);
  size_t bytes() const noexcept;
  /// By granule: free or not. For checks.
  std::vector<bool> free_map() const;

 private:
  struct Stack {  // free slots of one length, newest last
    uint32_t count = 0;
    std::vector<uint32_t> firsts;
  };
  Stack& stack_of(uint32_t count);
  /// Moves up to a batch of runs from the map to the stack.
  void refill(Stack& stack);
  /// Gives the newest part of every other stack to the map; false when they are all empty.
  bool join_some(const Stack& except);
  bool is_set(uint32_t granule) const noexcept {
    return ((map_[granule / 64] >> (granule % 64)) & 1U) != 0;
  }
  void set_run(uint32_t first, uint32_t count, bool free) noexcept;
  /// First granule at or behind `from` whose bit is `free`; granules() when there is none.
  uint32_t next(uint32_t from, bool free) const noexcept;

  uint32_t granules_;
  uint32_t free_;
  uint32_t quarantined_ = 0;
  uint32_t in_map_ = 0;        // granules
  uint32_t cursor_ = 0;        // where the next refill begins to look
  uint32_t hopeless_ = kNone;  // shortest length that can't be had until something is given back
  std::vector<uint64_t> map_;  // bit set: free and in no stack
  std::vector<Stack> stacks_;  // by length
};

}  // namespace troupe
