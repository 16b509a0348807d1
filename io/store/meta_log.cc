// Writing half of the MetaLog: the journal, snapshots in slices, and what happens when the disk
// refuses.
#include "io/store/meta_log.h"

#include "io/crash_point.h"
#include "io/store/meta_names.h"
#include "io/wire.h"
#include "runtime/base/log.h"

#include <algorithm>

namespace troupe::io {
namespace {

constexpr uint64_t kJournalMin = uint64_t{4}
                                 << 20;    // no snapshot below this, however small the store
constexpr uint32_t kSliceGranules = 2048;  // rows a step at most: about 0.5 ms
constexpr size_t kSnapshotBuffer = size_t{256} << 10;
constexpr uint64_t kJournalsMax = 8;  // restarts without a snapshot

}  // namespace

Status MetaLog::open_journal(uint64_t index) {
  crash_point("journal.rotate.before");
  const std::string name = journal_name(index);
  std::vector<std::byte> begin(32);
  put_le(std::span(begin), 0, id_);
  put_le(std::span(begin), 16, index);
  put_le(std::span(begin), 24, next_sequence_);
  std::vector<std::byte> bytes;
  append_entry(EntryKind::kBegin, next_number_, begin, bytes);
  TROUPE_TRY(files_->create(name));
  if (const Status appended = files_->append(name, bytes); !appended) {
    static_cast<void>(files_->remove(name));  // the old journal goes on
    return appended;
  }
  ++next_number_;
  old_bytes_ += journal_bytes_;
  journal_bytes_ = bytes.size();
  journal_index_ = index;
  journal_failed_ = false;
  crash_point("journal.rotate.after");
  return Status::ok();
}

void MetaLog::entry(EntryKind kind, std::span<const std::byte> payload) {
  if (durability_ != Durability::kCrash || broken_ || journal_failed_) {
    return;
  }
  append_entry(kind, next_number_++, payload, buffer_);
}

void MetaLog::put(const BlockRecord& record) {
  std::vector<std::byte> payload;
  append_compact(record, payload);
  entry(EntryKind::kPut, payload);
}

void MetaLog::drop(const Slot& slot) {
  std::vector<std::byte> payload = encode_slot(slot);
  payload.resize(20);
  put_le(std::span(payload), 12, next_sequence_);
  entry(EntryKind::kDrop, payload);
}

void MetaLog::quarantine(const Slot& slot) {
  entry(EntryKind::kQuarantine, encode_slot(slot));
}

void MetaLog::reinstate(const Slot& slot) {
  entry(EntryKind::kReinstate, encode_slot(slot));
}

void MetaLog::flush() {
  if (buffer_.empty() || journal_failed_ || broken_) {
    buffer_.clear();
    return;
  }
  crash_point("journal.append.before");
  const std::string name = journal_name(journal_index_);
  if (crash_is_due("journal.append.torn")) {
    static_cast<void>(files_->append(name, std::span(buffer_).first(buffer_.size() / 2)));
  }
  crash_point("journal.append.torn");
  const Status appended = files_->append(name, buffer_);
  if (!appended) {
    fail_journal(appended);
  } else {
    journal_bytes_ += buffer_.size();
    crash_point("journal.append.after");
  }
  buffer_.clear();
}

void MetaLog::start_sync(uint64_t sequence) {
  if (durability_ != Durability::kCrash || worker_.busy() || journal_failed_ || broken_) {
    return;
  }
  worker_is_snapshot_ = false;
  worker_sequence_ = sequence;
  worker_.start([this, name = journal_name(journal_index_)] {
    crash_point("journal.sync.before");
    const Status synced = files_->sync(name);
    crash_point("journal.sync.after");
    return synced;
  });
}

bool MetaLog::snapshot_due() const noexcept {
  if (broken_ || durability_ != Durability::kCrash) {
    return false;
  }
  const uint64_t journals = journal_bytes_ + old_bytes_;
  return journal_failed_ || (journals >= snapshot_retry_at_ &&
                             (journals > std::max(kJournalMin, 2 * snapshot_bytes_) ||
                              journal_index_ - oldest_journal_ >= kJournalsMax));
}

void MetaLog::begin_snapshot(bool clean) {
  if (snapshot_running() || broken_ || durability_ == Durability::kEphemeral) {
    return;
  }
  if (durability_ == Durability::kCrash) {
    flush();
    // The journal that will complete this snapshot; it starts before the first row is read.
    if (const Status opened = open_journal(journal_index_ + 1); !opened) {
      fail_snapshot(opened);
      return;
    }
  }
  if (const Status created = files_->create(kSnapshotTemp); !created) {
    fail_snapshot(created);
    return;
  }
  snapshot_ = SnapshotState::kRows;
  snapshot_clean_ = clean;
  snapshot_number_ = 1;
  snapshot_cursor_ = 0;
  snapshot_new_bytes_ = 0;
  snapshot_buffer_.clear();
  std::vector<std::byte> begin(32);
  put_le(std::span(begin), 0, id_);
  // For kClean there is no journal: the index is one that none will have.
  put_le(std::span(begin), 16,
         durability_ == Durability::kCrash ? journal_index_ : journal_index_ + 1);
  put_le(std::span(begin), 24, next_sequence_);
  append_entry(EntryKind::kBegin, snapshot_number_++, begin, snapshot_buffer_);
  append_entry(EntryKind::kPolicy, snapshot_number_++, policy_, snapshot_buffer_);
  crash_point("snapshot.begin.after");
}

Status MetaLog::append_snapshot(EntryKind kind, std::span<const std::byte> payload, bool flush) {
  append_entry(kind, snapshot_number_++, payload, snapshot_buffer_);
  if (!flush && snapshot_buffer_.size() < kSnapshotBuffer) {
    return Status::ok();
  }
  if (crash_is_due("snapshot.slice.torn")) {
    static_cast<void>(files_->append(
        kSnapshotTemp, std::span(snapshot_buffer_).first(snapshot_buffer_.size() / 2)));
  }
  crash_point("snapshot.slice.torn");
  const Status appended = files_->append(kSnapshotTemp, snapshot_buffer_);
  snapshot_new_bytes_ += snapshot_buffer_.size();
  snapshot_buffer_.clear();
  crash_point("snapshot.slice.after");
  return appended;
}

void MetaLog::snapshot_slice(const SlotTable& table) {
  Status written;
  std::vector<std::byte> payload;
  table.for_each(snapshot_cursor_, snapshot_cursor_ + kSliceGranules,
                 [&](const BlockRecord& record) {
                   if (written) {
                     payload.clear();
                     append_compact(record, payload);
                     written = append_snapshot(EntryKind::kPut, payload, false);
                   }
                 });
  snapshot_cursor_ += std::min(kSliceGranules, table.granules() - snapshot_cursor_);
  if (written && snapshot_cursor_ == table.granules()) {
    for (const Slot& slot : table.quarantined()) {
      written =
          written ? append_snapshot(EntryKind::kQuarantine, encode_slot(slot), false) : written;
    }
    std::vector<std::byte> end(12);
    put_le(std::span(end), 0, snapshot_number_ - 1);
    put_le(std::span(end), 8, uint32_t{snapshot_clean_});
    written = written ? append_snapshot(EntryKind::kEnd, end, true) : written;
    crash_point("snapshot.end.after");
    if (written) {
      snapshot_ = SnapshotState::kSyncing;
      return;
    }
  }
  if (!written) {
    fail_snapshot(written);
  }
}

void MetaLog::end_snapshot() {
  snapshot_ = SnapshotState::kIdle;
  snapshot_bytes_ = snapshot_new_bytes_;
  snapshot_retry_at_ = 0;
  ++snapshots_done_;
  crash_point("snapshot.remove.before");
  for (uint64_t i = oldest_journal_; i < journal_index_; ++i) {
    static_cast<void>(files_->remove(journal_name(i)));  // left-overs go at the next start
  }
  crash_point("snapshot.remove.after");
  if (durability_ == Durability::kCrash) {
    oldest_journal_ = journal_index_;
    old_bytes_ = 0;
  }
}

void MetaLog::on_worker(const Status& status) {
  if (worker_is_snapshot_) {
    if (status) {
      end_snapshot();
    } else {
      fail_snapshot(status);
    }
    return;
  }
  if (status) {
    synced_sequence_ = std::max(synced_sequence_, worker_sequence_);
    return;
  }
  // The kernel may have thrown the dirty pages away: what was not safe before is not safe now
  // either.
  lost_since_ = synced_sequence_;
  fail_journal(status);
}

void MetaLog::step(const SlotTable& table, bool wait) {
  do {
    if (const auto done = worker_.take(wait)) {
      on_worker(*done);
    }
    if (snapshot_ == SnapshotState::kRows) {
      snapshot_slice(table);
    }
    if (snapshot_ == SnapshotState::kSyncing && !worker_.busy()) {
      worker_is_snapshot_ = true;
      worker_.start([this] {
        TROUPE_TRY(files_->sync(kSnapshotTemp));
        crash_point("snapshot.sync.after");
        TROUPE_TRY(files_->rename(kSnapshotTemp, kSnapshotName));
        crash_point("snapshot.rename.after");
        return Status::ok();
      });
    }
  } while (wait && (snapshot_running() || worker_.busy()));
}

std::optional<uint64_t> MetaLog::take_lost_since() {
  const auto lost = lost_since_;
  lost_since_.reset();
  return lost;
}

void MetaLog::data_sync_failed() noexcept {
  lost_since_ = synced_sequence_;
}

void MetaLog::fail_journal(const Status& why) {
  if (journal_failed_) {
    return;
  }
  TROUPE_LOG_WARN("disk tier's journal: %s; a snapshot takes its place", why.to_string().c_str());
  journal_failed_ = true;
}

void MetaLog::fail_snapshot(const Status& why) {
  snapshot_ = SnapshotState::kIdle;
  snapshot_buffer_.clear();
  static_cast<void>(files_->remove(kSnapshotTemp));
  if (journal_failed_) {
    // Neither journal nor snapshot: what lies there would grow stale, so it goes.
    give_up(why);
    return;
  }
  TROUPE_LOG_WARN("disk tier's snapshot: %s; the old one stays valid", why.to_string().c_str());
  snapshot_retry_at_ = journal_bytes_ + old_bytes_ + kJournalMin;
}

void MetaLog::give_up(const Status& why) {
  TROUPE_LOG_ERROR("disk tier goes on without persistence: %s", why.to_string().c_str());
  broken_ = true;
  static_cast<void>(files_->remove(kSnapshotName));
  for (uint64_t i = oldest_journal_; i <= journal_index_; ++i) {
    static_cast<void>(files_->remove(journal_name(i)));
  }
}

}  // namespace troupe::io
