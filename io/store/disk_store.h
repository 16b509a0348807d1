// DiskStore: block records in preallocated files, found again after a restart. On a request's way:
// the disk mover writes demoted blocks into slots that the allocator chose, and reads them back on
// a load.
//
//   write: drop what lay there (journalled first) -> payload + trailer -> put (journalled) ->
//   completion read : what is expected must lie there -> payload -> checksum or tag -> completion
//
// May lose, never lies: a completion of a read without a fault means that the bytes are those that
// were written under that key, namespace, domain, generation and format; everything else is a typed
// miss, and a slot that lied is quarantined. A key is not visible before its write completed, nor
// after it failed. Threads: one, as its BlockDevice. `wake` from any. The slots are the caller's:
// it must not reuse one before its last completion; the store refuses if it does.
#pragma once

#include "io/arena.h"
#include "io/block_device.h"
#include "io/memory/memory_backend.h"
#include "io/store/cipher.h"
#include "io/store/layout.h"
#include "io/store/meta_log.h"
#include "io/store/table.h"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::io {

struct StoreOptions {
  std::string directory;
  std::vector<SizeClass> classes;
  Durability durability = Durability::kEphemeral;
  /// Only with kEphemeral: the key dies with the process.
  bool encrypt = false;
  /// Hard limit on what this directory may hold, data and metadata and what earlier runs left; 0:
  /// data plus a quarter of it, at least 64 MiB.
  uint64_t capacity_bytes = 0;
  BackendChoice backend = BackendChoice::kAuto;
  uint32_t depth = 32;
  uint32_t chunk_bytes = 1U << 20;
  uint32_t uring_entries = 0;  // as BlockDeviceOptions
  bool uring_plain = false;
  uint32_t operations_max = 1024;  // reads and writes accepted and not completed
  /// Data are synced after so many written bytes (kCrash), beside the requests.
  uint64_t sync_bytes = uint64_t{64} << 20;
  bool direct = true;
  ChecksumFn checksum = default_checksum;
  std::shared_ptr<FaultInjector> faults{};  // for tests; null in production
};

/// What a test or a simulation gives instead of a directory.
struct StoreParts {
  std::unique_ptr<BlockDevice> device;  // one file per size class, of the layout's sizes
  std::unique_ptr<MetaFiles> meta;      // null with kEphemeral
  bool with_thread = false;
};

struct WriteBlock {
  Slot slot;
  /// Identity and metadata; payload_bytes, payload_checksum, sequence, slot, tag, nonce are filled
  /// in.
  BlockRecord record;
  /// A multiple of the device's alignment, which is 4096 at most; all of it is stored.
  std::span<std::byte> payload;
  /// The payload's checksum by StoreOptions::checksum if it is known from the copy; else computed
  /// here.
  std::optional<uint64_t> checksum{};
  uint8_t priority = kPriorityNormal;
  uint64_t user_data = 0;
};

struct ReadBlock {
  RecordExpectation expected;    // key and slot always, the rest where known
  std::span<std::byte> payload;  // exactly payload_bytes
  uint8_t priority = kPriorityNormal;
  uint64_t user_data = 0;
};

enum class StoreVerdict : uint8_t {
  kOk = 0,
  kMissing,  // nothing lies there (any more), or something else: `fault` says what differs
  kCorrupt,  // the bytes do not verify: dropped, the slot is quarantined
  kIoError,  // the device failed: dropped
  kNoSpace,  // a write found no space: nothing is there
};
const char* store_verdict_name(StoreVerdict verdict) noexcept;

struct StoreCompletion {
  uint64_t user_data = 0;
  StoreVerdict verdict = StoreVerdict::kOk;
  RecordFault fault = RecordFault::kNone;
  int error = 0;  // errno of the device
  bool write = false;
  bool quarantined = false;  // the slot is out of use from now on
  Slot slot{};
  uint64_t checksum = 0;  // of the payload
};

struct StoreStats {
  uint64_t writes = 0, reads = 0, write_bytes = 0, read_bytes = 0;  // completed well
  uint64_t missing = 0, corrupt = 0, io_errors = 0, no_space = 0;
  uint64_t reread = 0;     // payloads read a second time since they did not verify
  uint64_t healed = 0;     // of these, right at the second look
  uint64_t lost_rows = 0;  // dropped since a sync failed
};

class DiskStore {
 public:
  /// Opens or creates, recovers, takes the directory's lock. Errors: failed_precondition (in use,
  /// with the owner's pid), no_capacity (limit or disk, with the numbers), unsupported (a newer
  /// version's store), invalid_argument, io.
  static Expected<std::unique_ptr<DiskStore>> open(StoreOptions options);
  /// The same over given parts, without a directory. `options.directory` is used in messages only.
  static Expected<std::unique_ptr<DiskStore>> open_over(StoreOptions options, StoreParts parts);
  ~DiskStore();

  /// All or none. Errors: no_capacity (`room`, or metadata at the limit), invalid_argument (names
  /// the block), failed_precondition (slot in flight or quarantined).
  Status write(std::span<const WriteBlock> batch);
  /// All or none; a block that is not there completes as kMissing.
  Status read(std::span<const ReadBlock> batch);
  /// What lies there ends; not there is fine. failed_precondition while the slot is being written.
  Status drop(const Slot& slot);
  /// Takes a record that lies on the disk already into the index (repair: the caller has verified
  /// it). False when a newer one, a busy or a quarantined slot is in the way, or it does not fit
  /// there.
  bool adopt(const BlockRecord& record);
  /// Uses a quarantined slot again.
  void reinstate(const Slot& slot);

  size_t poll(std::span<StoreCompletion> out);
  size_t wait(std::span<StoreCompletion> out, int64_t timeout_ns);
  void wake() { device_->wake(); }
  /// Registers memory that payloads live in (BlockDevice::register_buffers).
  Status register_buffers(std::span<const std::span<std::byte>> buffers);

  /// Starts a snapshot that keeps `policy_state`; it is written by later polls. Not needed for
  /// blocks: the store starts its own when the journal has grown.
  void checkpoint(std::vector<std::byte> policy_state);
  /// Waits for all in flight, keeps the policy state, makes everything durable that the level
  /// promises.
  Status close(std::vector<std::byte> policy_state, int64_t timeout_ns);

  /// Live records by granule: what a recovery found, and what came since.
  void for_each(const std::function<void(const BlockRecord&)>& visit) const;
  const BlockRecord* find(const Slot& slot) const noexcept { return table_.find(slot); }
  const RecoveryReport& recovery() const noexcept { return recovery_; }
  const std::vector<std::byte>& policy_state() const noexcept { return policy_state_; }
  const StoreLayout& layout() const noexcept { return layout_; }
  const SlotTable& table() const noexcept { return table_; }
  const StoreStats& stats() const noexcept { return stats_; }
  const BlockDevice& device() const noexcept { return *device_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  bool persistent() const noexcept { return meta_ != nullptr && !meta_->broken(); }
  /// Bytes in use on disk: data files and metadata.
  uint64_t disk_bytes() const noexcept;
  size_t room() const noexcept { return free_operations_.size(); }
  size_t outstanding() const noexcept { return outstanding_; }

 private:
  struct Operation {
    bool write = false;
    bool reread = false;
    uint64_t user_data = 0;
    uint8_t priority = kPriorityNormal;
    BlockRecord record;
    std::span<std::byte> payload;
    Arena sealed{};  // ciphertext on its way to the disk
    IoRequest request;
  };
  static constexpr uint64_t kSyncTag = UINT64_MAX;
  static constexpr uint16_t kWriting = UINT16_MAX;

  DiskStore(StoreOptions options, StoreLayout layout);
  Status open_directory();
  Status open_parts(StoreParts parts);
  Status check_usage();
  Status check_write(const WriteBlock& block) const;
  Status check_read(const ReadBlock& block) const;
  bool is_busy(const Slot& slot, bool writers_only) const noexcept;
  uint64_t next_sequence() noexcept;
  void mark(const Slot& slot, bool write, int change) noexcept;
  uint32_t take_operation();
  Status prepare_write(const WriteBlock& block, IoRequest& request);
  bool prepare_read(const ReadBlock& block, IoRequest& request);
  void pump(bool wait, int64_t timeout_ns);
  void on_io(const IoCompletion& done);
  void on_written(uint32_t index, const IoCompletion& done);
  void on_read(uint32_t index, const IoCompletion& done);
  bool verify(const Operation& operation);
  void finish(uint32_t index, StoreCompletion completion);
  void lose_since(uint64_t sequence);
  void background();
  void start_data_sync();
  Status drain(int64_t deadline_ns);
  std::span<std::byte> trailer_of(uint32_t index) noexcept;

  StoreOptions options_;
  StoreLayout layout_;
  SlotTable table_;
  Fd lock_;
  std::unique_ptr<MetaLog> meta_;
  std::unique_ptr<PayloadCipher> cipher_;
  Arena trailers_;                       // one per operation
  std::unique_ptr<BlockDevice> device_;  // after the arenas: it must go first
  RecoveryReport recovery_;
  std::vector<std::byte> policy_state_;
  std::vector<std::string> notes_;
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_operations_;
  std::vector<uint16_t> busy_;  // per granule: readers, or kWriting
  std::deque<StoreCompletion> completed_;
  StoreStats stats_;
  size_t outstanding_ = 0;
  uint64_t ephemeral_sequence_ = 1;
  uint64_t unsynced_bytes_ = 0;
  uint64_t syncing_sequence_ = 0;
  uint64_t meta_limit_ = UINT64_MAX;
  uint32_t syncs_flying_ = 0;
  bool sync_failed_ = false;
  bool closed_ = false;
};

}  // namespace troupe::io
