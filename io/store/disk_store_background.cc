// What the disk store does beside requests: syncs of data and journal, snapshots, and dropping what
// a failed sync made doubtful.
#include "io/store/disk_store.h"
#include "runtime/base/log.h"

#include <algorithm>

namespace troupe::io {

void DiskStore::start_data_sync() {
  if (options_.durability != Durability::kCrash || syncs_flying_ > 0 || meta_->broken()) {
    return;
  }
  // Rows that have completed are covered; writes in flight are not.
  syncing_sequence_ = meta_->next_sequence();
  for (const Operation& operation : operations_) {
    if (operation.write) {
      syncing_sequence_ = std::min(syncing_sequence_, operation.record.sequence);
    }
  }
  for (uint32_t file = 0; file < layout_.classes().size(); ++file) {
    const IoRequest sync{
        .op = IoOp::kSync, .priority = kPriorityBackground, .file = file, .user_data = kSyncTag};
    syncs_flying_ += device_->submit({&sync, 1}) ? 1 : 0;
  }
  unsynced_bytes_ = 0;
}

void DiskStore::lose_since(uint64_t sequence) {
  std::vector<Slot> lost;
  for_each([&](const BlockRecord& record) {
    if (record.sequence >= sequence) {
      lost.push_back(record.slot);
    }
  });
  TROUPE_LOG_WARN(
      "disk tier %s: a sync failed, %zu blocks written since the last good one are dropped",
      options_.directory.c_str(), lost.size());
  for (const Slot& slot : lost) {
    table_.drop(slot, UINT64_MAX);
    meta_->drop(slot);
  }
  stats_.lost_rows += lost.size();
  meta_->flush();
}

void DiskStore::background() {
  if (meta_ == nullptr || closed_) {
    return;
  }
  meta_->flush();
  meta_->step(table_, false);
  if (const auto lost = meta_->take_lost_since()) {
    lose_since(*lost);
  }
  if (meta_->snapshot_due()) {
    meta_->begin_snapshot(false);
  }
  if (unsynced_bytes_ >= options_.sync_bytes) {
    start_data_sync();
  }
}

}  // namespace troupe::io
