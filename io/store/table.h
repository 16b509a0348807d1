// SlotTable: what lies where. One row per live record, one owner per granule; quarantined granules.
// Invariants: every granule of a live row is owned by it and by no other; live_granules counts
// them; no row covers a quarantined granule; rows are walked in the order of their granules.
#pragma once

#include "io/record.h"

#include <functional>
#include <vector>

namespace troupe::io {

class SlotTable {
 public:
  explicit SlotTable(uint32_t granules) : owner_(granules, kFree) {}

  /// The live row whose run starts at slot.first with this count; null when none does. Generations
  /// are not compared.
  const BlockRecord* find(const Slot& slot) const noexcept;
  /// Takes the run. Rows that overlap with a lower sequence end; returns false (and changes
  /// nothing) when one with a higher or equal sequence of another record, or quarantine, is in the
  /// way.
  bool put(const BlockRecord& record);
  /// Ends the row that starts here, if its sequence is below `before`. True when one ended.
  bool drop(const Slot& slot, uint64_t before);
  /// Live rows that overlap the run.
  std::vector<Slot> overlapping(const Slot& slot) const;
  void quarantine(const Slot& slot);
  void reinstate(const Slot& slot);
  bool is_quarantined(const Slot& slot) const noexcept;

  /// Rows with first granule in [from, to), by granule.
  void for_each(uint32_t from, uint32_t to,
                const std::function<void(const BlockRecord&)>& visit) const;
  /// Quarantined runs, by granule.
  std::vector<Slot> quarantined() const;

  uint32_t granules() const noexcept { return static_cast<uint32_t>(owner_.size()); }
  uint64_t live_rows() const noexcept { return rows_.size() - free_rows_.size(); }
  uint64_t live_granules() const noexcept { return live_granules_; }
  uint64_t quarantined_granules() const noexcept { return quarantined_granules_; }
  /// Recomputes every invariant above. For tests and fsck.
  Status check() const;

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  static constexpr uint32_t kQuarantined = UINT32_MAX - 1;
  void end_row(uint32_t row);
  bool is_row(uint32_t owner) const noexcept { return owner < kQuarantined; }
  bool in_range(const Slot& slot) const noexcept {
    return slot.count > 0 && uint64_t{slot.first.v} + slot.count <= owner_.size();
  }

  std::vector<uint32_t> owner_;  // row, kFree or kQuarantined
  std::vector<BlockRecord> rows_;
  std::vector<uint32_t> free_rows_;
  uint64_t live_granules_ = 0;
  uint64_t quarantined_granules_ = 0;
};

}  // namespace troupe::io
