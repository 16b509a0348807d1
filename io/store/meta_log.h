// MetaLog: the store's memory of what lies where, across restarts. A snapshot names the first
// journal that counts after it; journals are replayed in order; every start opens a new journal, so
// nothing is ever appended behind damage.
//
//   snapshot  Begin(store, first journal) Policy Quarantine* Put* End(count, clean)
//   journal   Begin(store, its index) (Put | Drop | Quarantine | Reinstate)*
//
// Snapshots are written in slices while the store works, so they are fuzzy: replaying the journal
// that was opened with them makes them exact, since of two claims on a place the higher sequence
// wins and a Drop ends only lower ones. Replaced by write-temp, sync, rename, sync directory.
// Invariants: a Drop is in the journal before its place is overwritten, a Put after its data are
// there, so the recovered index names only what was wholly written and not overwritten since (kill
// -9); after power loss records judge themselves. A failed sync is never retried and trusted: see
// `lost_since`.
#pragma once

#include "io/store/journal.h"
#include "io/store/layout.h"
#include "io/store/meta_files.h"
#include "io/store/sync_worker.h"
#include "io/store/table.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace troupe::io {

/// What a restart finds. Values are shown by `troupe tiers`.
enum class Durability : uint8_t {
  kEphemeral = 0,  // nothing: the data file has no name
  kClean = 1,      // everything after an orderly close, nothing after a crash
  kCrash = 2,      // everything that was published, but for the last moments before a power loss
};
const char* durability_name(Durability durability) noexcept;

struct RecoveryReport {
  bool cold = true;      // started empty
  std::string reason;    // why cold, or what was cut off; empty when all is well
  uint64_t entries = 0;  // snapshot and journal entries read
  uint64_t rows = 0;
  uint64_t journals = 0;
  uint64_t outside = 0;  // rows that no longer fit (the tier was made smaller)
};

/// First file of a store: which one it is, and its size classes.
struct Superblock {
  std::array<std::byte, 16> id{};
  StoreLayout layout;
};
/// corrupt, or unsupported for a newer version.
Expected<Superblock> decode_superblock(std::span<const std::byte> bytes);

class MetaLog {
 public:
  /// Reads what is there into `table` and opens a new journal (kCrash). Errors: unsupported
  /// (written by a newer version: left untouched), io, no_capacity. Damage is no error but a cold
  /// or shortened start.
  static Expected<std::unique_ptr<MetaLog>> recover(std::unique_ptr<MetaFiles> files,
                                                    const StoreLayout& layout,
                                                    Durability durability, bool with_thread,
                                                    SlotTable& table);

  const RecoveryReport& report() const noexcept { return report_; }
  const std::vector<std::byte>& policy_state() const noexcept { return policy_; }
  void set_policy_state(std::vector<std::byte> state) { policy_ = std::move(state); }
  uint64_t next_sequence() const noexcept { return next_sequence_; }
  uint64_t take_sequence() noexcept { return next_sequence_++; }
  /// Later writes get higher numbers than this one.
  void saw_sequence(uint64_t sequence) noexcept {
    next_sequence_ = next_sequence_ > sequence ? next_sequence_ : sequence + 1;
  }

  void put(const BlockRecord& record);
  /// Ends claims on `slot` with a sequence below the next one.
  void drop(const Slot& slot);
  void quarantine(const Slot& slot);
  void reinstate(const Slot& slot);
  /// Hands buffered entries to the operating system (they survive this process from then on).
  void flush();
  /// Makes the journal durable in the background; `completed` rows below `sequence` are then safe.
  void start_sync(uint64_t sequence);

  bool snapshot_running() const noexcept { return snapshot_ != SnapshotState::kIdle; }
  /// Due when journals have grown past what a recovery should read.
  bool snapshot_due() const noexcept;
  void begin_snapshot(bool clean);
  /// Background work, a bounded slice: snapshot slices, results of syncs. `wait` finishes what
  /// runs.
  void step(const SlotTable& table, bool wait);

  /// Rows with a sequence at or above this can't be trusted to be on disk, since a sync failed: the
  /// store must drop them. Taken once.
  std::optional<uint64_t> take_lost_since();
  /// Called when the data's own sync failed.
  void data_sync_failed() noexcept;
  /// Persistence given up (full or failing disk); the store goes on as an ephemeral one.
  bool broken() const noexcept { return broken_; }
  uint64_t meta_bytes() const noexcept { return journal_bytes_ + old_bytes_ + snapshot_bytes_; }
  uint64_t snapshots_done() const noexcept { return snapshots_done_; }

 private:
  enum class SnapshotState : uint8_t { kIdle, kRows, kSyncing };

  MetaLog(std::unique_ptr<MetaFiles> files, Durability durability, bool with_thread)
      : files_(std::move(files)), durability_(durability), worker_(with_thread) {}

  Status load(const StoreLayout& layout, SlotTable& table);
  Expected<bool> load_superblock(const StoreLayout& layout);  // false: start cold
  Status write_superblock(const StoreLayout& layout);
  bool load_snapshot(SlotTable& table);
  void load_journals(SlotTable& table);
  bool apply(const Entry& entry, SlotTable& table);
  Status start_cold(const StoreLayout& layout, SlotTable& table, const std::string& why);
  Status open_journal(uint64_t index);
  void entry(EntryKind kind, std::span<const std::byte> payload);
  void fail_journal(const Status& why);
  void fail_snapshot(const Status& why);
  void give_up(const Status& why);
  void snapshot_slice(const SlotTable& table);
  void end_snapshot();
  void on_worker(const Status& status);
  Status append_snapshot(EntryKind kind, std::span<const std::byte> payload, bool flush);

  std::unique_ptr<MetaFiles> files_;
  Durability durability_;
  SyncWorker worker_;
  RecoveryReport report_;
  std::array<std::byte, 16> id_{};
  std::vector<std::byte> policy_;
  uint64_t next_sequence_ = 1;

  uint64_t journal_index_ = 0;   // the open one
  uint64_t oldest_journal_ = 1;  // still on disk
  uint64_t next_number_ = 1;
  std::vector<std::byte> buffer_;
  uint64_t journal_bytes_ = 0;  // of the open one
  uint64_t old_bytes_ = 0;      // of older ones
  bool journal_failed_ = false;

  SnapshotState snapshot_ = SnapshotState::kIdle;
  bool snapshot_clean_ = false;
  bool worker_is_snapshot_ = false;
  uint64_t worker_sequence_ = 0;
  uint64_t synced_sequence_ = 0;
  uint64_t snapshot_number_ = 1;
  uint32_t snapshot_cursor_ = 0;
  std::vector<std::byte> snapshot_buffer_;
  uint64_t snapshot_bytes_ = 0;      // of the last whole one
  uint64_t snapshot_new_bytes_ = 0;  // of the running one
  uint64_t snapshot_retry_at_ = 0;   // journal bytes before another try after a failure
  uint64_t snapshots_done_ = 0;
  std::optional<uint64_t> lost_since_;
  bool broken_ = false;
  bool resized_ = false;  // since the last run
};

}  // namespace troupe::io
