#include "io/store/table.h"

#include "io/store/layout.h"

#include <algorithm>

namespace troupe::io {

const BlockRecord* SlotTable::find(const Slot& slot) const noexcept {
  if (!in_range(slot) || !is_row(owner_[slot.first.v])) {
    return nullptr;
  }
  const BlockRecord& row = rows_[owner_[slot.first.v]];
  return row.slot.first == slot.first && row.slot.count == slot.count ? &row : nullptr;
}

std::vector<Slot> SlotTable::overlapping(const Slot& slot) const {
  std::vector<Slot> found;
  if (!in_range(slot)) {
    return found;
  }
  for (uint32_t i = 0; i < slot.count; ++i) {
    const uint32_t owner = owner_[slot.first.v + i];
    if (is_row(owner) && (found.empty() || found.back() != rows_[owner].slot)) {
      found.push_back(rows_[owner].slot);
    }
  }
  return found;
}

bool SlotTable::put(const BlockRecord& record) {
  if (!in_range(record.slot) || is_quarantined(record.slot)) {
    return false;
  }
  const std::vector<Slot> old = overlapping(record.slot);
  for (const Slot& slot : old) {
    const BlockRecord& row = rows_[owner_[slot.first.v]];
    if (row.sequence > record.sequence) {
      return false;
    }
  }
  for (const Slot& slot : old) {
    end_row(owner_[slot.first.v]);
  }
  uint32_t row = 0;
  if (free_rows_.empty()) {
    row = static_cast<uint32_t>(rows_.size());
    rows_.push_back(record);
  } else {
    row = free_rows_.back();
    free_rows_.pop_back();
    rows_[row] = record;
  }
  std::fill_n(owner_.begin() + record.slot.first.v, record.slot.count, row);
  live_granules_ += record.slot.count;
  return true;
}

void SlotTable::end_row(uint32_t row) {
  const Slot slot = rows_[row].slot;
  std::fill_n(owner_.begin() + slot.first.v, slot.count, kFree);
  live_granules_ -= slot.count;
  rows_[row] = BlockRecord{};
  free_rows_.push_back(row);
}

bool SlotTable::drop(const Slot& slot, uint64_t before) {
  if (!in_range(slot)) {
    return false;
  }
  const uint32_t owner = owner_[slot.first.v];
  if (!is_row(owner) || rows_[owner].slot.first != slot.first || rows_[owner].sequence >= before) {
    return false;
  }
  end_row(owner);
  return true;
}

void SlotTable::quarantine(const Slot& slot) {
  if (!in_range(slot)) {
    return;
  }
  for (const Slot& old : overlapping(slot)) {
    end_row(owner_[old.first.v]);
  }
  for (uint32_t i = 0; i < slot.count; ++i) {
    uint32_t& owner = owner_[slot.first.v + i];
    quarantined_granules_ += owner == kFree ? 1 : 0;
    owner = kQuarantined;
  }
}

void SlotTable::reinstate(const Slot& slot) {
  if (!in_range(slot)) {
    return;
  }
  for (uint32_t i = 0; i < slot.count; ++i) {
    uint32_t& owner = owner_[slot.first.v + i];
    if (owner == kQuarantined) {
      owner = kFree;
      --quarantined_granules_;
    }
  }
}

bool SlotTable::is_quarantined(const Slot& slot) const noexcept {
  if (!in_range(slot)) {
    return false;
  }
  const auto begin = owner_.begin() + slot.first.v;
  return std::find(begin, begin + slot.count, kQuarantined) != begin + slot.count;
}

void SlotTable::for_each(uint32_t from, uint32_t to,
                         const std::function<void(const BlockRecord&)>& visit) const {
  for (uint32_t granule = from; granule < std::min(to, granules()); ++granule) {
    const uint32_t owner = owner_[granule];
    if (is_row(owner) && rows_[owner].slot.first.v == granule) {
      visit(rows_[owner]);
    }
  }
}

std::vector<Slot> SlotTable::quarantined() const {
  std::vector<Slot> runs;
  for (uint32_t granule = 0; granule < granules(); ++granule) {
    if (owner_[granule] != kQuarantined) {
      continue;
    }
    if (!runs.empty() && runs.back().first.v + runs.back().count == granule) {
      ++runs.back().count;
    } else {
      runs.push_back({GranuleId(granule), 1, 0});
    }
  }
  return runs;
}

Status SlotTable::check() const {
  uint64_t live = 0, quarantined = 0, rows = 0;
  for (uint32_t granule = 0; granule < granules(); ++granule) {
    const uint32_t owner = owner_[granule];
    quarantined += owner == kQuarantined ? 1 : 0;
    if (!is_row(owner)) {
      continue;
    }
    ++live;
    const Slot& slot = rows_[owner].slot;
    if (granule < slot.first.v || granule >= slot.first.v + slot.count) {
      return {Code::kInternal,
              "granule " + std::to_string(granule) + " is owned by " + slot_text(slot)};
    }
    rows += slot.first.v == granule ? 1 : 0;
  }
  if (live != live_granules_ || quarantined != quarantined_granules_ || rows != live_rows()) {
    return {Code::kInternal, "counts disagree: live granules " + std::to_string(live) + " and " +
                                 std::to_string(live_granules_) + ", quarantined " +
                                 std::to_string(quarantined) + " and " +
                                 std::to_string(quarantined_granules_) + ", rows " +
                                 std::to_string(rows) + " and " + std::to_string(live_rows())};
  }
  return Status::ok();
}

}  // namespace troupe::io
